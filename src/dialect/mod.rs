//! Which on-disk format: the names of shards and the documents beside them.
//!
//! ```text
//! dialect             the image's documents                                   shards
//! zarr3               zarr.json (group), 0/zarr.json                          0/c/0/0/0
//! zarr3-transformer   zarr.json, meta/root.group.json, meta/root/0.array.json data/root/0/c0/0/0
//! zarr2-sharded       .zarray, .zattrs                                        0/0/0
//! precomputed         info                                                    <key>/0.shard
//! ```
//!
//! Per-frame records are arrays of Zarr v3 beside them in every dialect.

mod precomputed;
mod transformer;
pub(crate) mod volume;
mod zarr2;
pub(crate) mod zarr3;

use serde_json::{Map, Value, json};

use crate::config::{Config, Dialect};
use crate::dtype::Dtype;
use crate::ome;
use crate::plan::Plan;
use crate::shard::Place;

/// The attribute under which the writer itself speaks.
const OWN: &str = "shardwright";

/// What documents say about an image.
#[derive(Clone, Copy)]
pub(crate) struct Image<'a> {
    pub(crate) config: &'a Config,
    pub(crate) plan: &'a Plan,
    pub(crate) shape: &'a [u64],
    /// The user's attributes, and the writer's own.
    pub(crate) user: &'a Map<String, Value>,
    pub(crate) own: &'a Value,
}

/// A document's key and what it says.
pub(crate) type Document = (String, Value);

impl Image<'_> {
    /// The documents that never change.
    pub(crate) fn entry(&self) -> Vec<Document> {
        match self.config.dialect {
            Dialect::Zarr3Transformer => vec![transformer::entry()],
            _ => Vec::new(),
        }
    }

    /// The documents that name the shape.
    pub(crate) fn of_shape(&self) -> Document {
        match self.config.dialect {
            Dialect::Zarr3 => ("0/zarr.json".into(), zarr3::image(self.config, self.plan, self.shape)),
            Dialect::Zarr3Transformer => transformer::array(self),
            Dialect::Zarr2Sharded => zarr2::array(self),
            Dialect::Precomputed => precomputed::info(self),
        }
    }

    /// The documents that hold the attributes.
    pub(crate) fn of_attributes(&self) -> Document {
        let mut attributes = self.user.clone();
        attributes.insert(OWN.into(), self.own.clone());
        match self.config.dialect {
            Dialect::Zarr3 => {
                if ome::why_not(&self.config.dims).is_none() {
                    attributes.insert("ome".into(), ome::image_attributes(self.config, "0"));
                }
                ("zarr.json".into(), zarr3::group(Value::Object(attributes)))
            }
            Dialect::Zarr3Transformer => transformer::group(attributes),
            Dialect::Zarr2Sharded => zarr2::attributes(self, attributes),
            Dialect::Precomputed => precomputed::info(self),
        }
    }
}

/// The key of a shard.
pub(crate) fn shard_key(config: &Config, plan: &Plan, place: &Place) -> String {
    if let Some(volume) = &plan.volume {
        let shard = volume.shard_number(&place.grid, place.across);
        return format!("{}/{}", precomputed::key(config), volume.spec.file_name(shard));
    }
    let outer = plan.order.outer_dims();
    let columns = plan.shape[outer + 1].div_ceil(plan.shard_shape[outer + 1]);
    let mut grid = place.grid[..outer].to_vec();
    grid.extend([place.across as u64 / columns, place.across as u64 % columns]);
    match config.dialect {
        Dialect::Zarr3Transformer => transformer::shard_key(&grid),
        Dialect::Zarr2Sharded => zarr2::shard_key(&grid),
        _ => format!("0/{}", zarr3::shard_key(&grid)),
    }
}

/// The names of the dimensions.
fn names(config: &Config) -> Vec<&str> {
    config.dims.iter().map(|dim| dim.name.as_str()).collect()
}

/// The fill value as documents have it.
fn fill_value(config: &Config) -> Value {
    let value = config.fill_value;
    match config.dtype {
        _ if value.is_nan() => json!("NaN"),
        _ if value.is_infinite() => json!(if value > 0.0 { "Infinity" } else { "-Infinity" }),
        Dtype::F32 => json!(value as f32),
        Dtype::F64 => json!(value),
        Dtype::U64 => json!(value as u64),
        _ => json!(value as i64),
    }
}

/// An element's type as NumPy spells it, in the byte order of this machine, in which frames are stored.
fn numpy_name(dtype: Dtype) -> String {
    let kind = match dtype {
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => 'u',
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => 'i',
        Dtype::F32 | Dtype::F64 => 'f',
    };
    let order = match dtype.size() {
        1 => '|',
        _ if cfg!(target_endian = "big") => '>',
        _ => '<',
    };
    format!("{order}{kind}{}", dtype.size())
}
