//! Codec chains in documents: the order of dimensions, how elements become bytes, and what [`Codec`] says about the
//! rest.

use serde_json::{Value, json};

use super::document::{INSTEAD, named};
use super::index::table::TableLayout;
use super::layout::in_order;
use super::sharding::ShardingCodec;
use crate::config::{Codec, Compressor};
use crate::dtype::ElementType;
use crate::error::Refusal;
use crate::json::{render_line, text};

/// Shards in shards in shards: more are nobody's, and each takes memory.
const DEPTH_MAX: usize = 4;

/// How a chunk is encoded.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    /// The array's dimensions in the order in which a chunk has them; `None`: as they are.
    pub(crate) order: Option<Vec<usize>>,
    pub(crate) packing: BytesCodec,
    pub(crate) codec: Codec,
    /// The codecs with their configurations, for people.
    pub(crate) names: Vec<String>,
    /// The chain as a Zarr v3 document has it.
    pub(crate) document: Vec<Value>,
}

/// The array-to-bytes codec.
#[derive(Debug, Clone)]
pub(crate) enum BytesCodec {
    /// One element after another; their numbers may have their highest byte first.
    Elements { big_endian: bool },
    /// Chunks of its own, as in a shard.
    Shard(Box<InnerShard>),
}

/// A chunk that is a shard itself.
#[derive(Debug, Clone)]
pub(crate) struct InnerShard {
    /// In the order of the chunk's dimensions.
    pub(crate) chunk_shape: Vec<u64>,
    pub(crate) per_shard: Vec<u64>,
    pub(crate) table: TableLayout,
    pub(crate) chain: Chain,
}

impl Chain {
    /// A chain of elements in C order, whose compressor people know as `name`.
    pub(crate) fn new(codec: Codec, big_endian: bool, element: ElementType, name: Option<String>) -> Self {
        let packing = BytesCodec::Elements { big_endian: big_endian && element.number_bytes() > 1 };
        let document = std::iter::once(bytes(big_endian, element.number_bytes()));
        let document = document.chain(crate::codec::zarr3_codecs(&codec, element.codec_bytes())).collect();
        Self { order: None, packing, codec, names: name.into_iter().collect(), document }
    }

    /// The same with the last dimension slowest: Fortran's order.
    pub(crate) fn reversed(mut self, dimensions: usize) -> Self {
        if dimensions > 1 {
            let order: Vec<usize> = (0..dimensions).rev().collect();
            self.document.insert(0, json!({"name": "transpose", "configuration": {"order": order}}));
            self.names.insert(0, "order F".to_owned());
            self.order = Some(order);
        }
        self
    }

    /// Reads the chain of a Zarr v3 document for chunks of this shape.
    pub(crate) fn from_zarr3(codecs: &[Value], element: ElementType, chunk_shape: &[u64]) -> Result<Self, Refusal> {
        Self::parse(codecs, element, chunk_shape, 0)
    }

    fn parse(codecs: &[Value], element: ElementType, chunk_shape: &[u64], depth: usize) -> Result<Self, Refusal> {
        let (order, rest) = transposes(codecs, chunk_shape.len())?;
        let Some((first, rest)) = rest.split_first() else {
            return Err("codecs has no codec, such as `bytes`, which makes bytes of elements".into());
        };
        let packing = match (named(first), ShardingCodec::parse(first)?) {
            (_, Some(sharding)) => {
                let stored = order.as_ref().map_or_else(|| chunk_shape.to_vec(), |order| in_order(chunk_shape, order));
                BytesCodec::Shard(Box::new(InnerShard::parse(&sharding, element, &stored, depth)?))
            }
            (Some(("bytes", _)), _) => BytesCodec::Elements { big_endian: is_big_endian(first, element)? },
            (Some((name, _)), _) => {
                return Refusal::unsupported(format!("codec {name} is not read here; {INSTEAD}"));
            }
            (None, _) => return Err(format!("{} is no codec: a codec has a name", render_line(first)).into()),
        };
        let codec =
            crate::codec::from_zarr3(rest).map_err(|error| Refusal::Unsupported(format!("{error}; {INSTEAD}")))?;
        if matches!(packing, BytesCodec::Shard(_)) && codec.compressor != Compressor::None {
            let names: Vec<_> = codecs.iter().map(describe).collect();
            return Refusal::unsupported(format!(
                "shards that are compressed as a whole are not read here: {}; {INSTEAD}",
                names.join(", ")
            ));
        }
        let names = codecs.iter().map(describe).collect();
        Ok(Self { order: order.filter(|order| !is_c(order)), packing, codec, names, document: codecs.to_vec() })
    }

    pub(crate) fn big_endian(&self) -> bool {
        matches!(self.packing, BytesCodec::Elements { big_endian: true })
    }

    /// Whether what the compressor gets are elements in C order, lowest byte first, as this crate writes them.
    pub(crate) fn is_plain(&self) -> bool {
        self.order.is_none() && matches!(self.packing, BytesCodec::Elements { big_endian: false })
    }

    /// What elements are compressed with, however they are packed.
    pub(crate) fn element_codec(&self) -> &Codec {
        match &self.packing {
            BytesCodec::Elements { .. } => &self.codec,
            BytesCodec::Shard(shard) => shard.chain.element_codec(),
        }
    }

    /// The shape of the chunks in a chunk that is a shard, or a shard of shards, with the dimensions of the chunk;
    /// `None` where it is none.
    pub(crate) fn innermost_chunk(&self) -> Option<Vec<u64>> {
        let BytesCodec::Shard(shard) = &self.packing else { return None };
        let stored = shard.chain.innermost_chunk().unwrap_or_else(|| shard.chunk_shape.clone());
        let Some(order) = &self.order else { return Some(stored) };
        let mut shape = stored.clone();
        order.iter().zip(stored).for_each(|(&dim, length)| shape[dim] = length);
        Some(shape)
    }

    /// Whether every byte of a chunk has a checksum.
    pub(crate) fn has_checksum(&self) -> bool {
        let of_compressor = matches!(self.codec.compressor, Compressor::Gzip { .. } | Compressor::Zlib { .. });
        let of_shard = match &self.packing {
            BytesCodec::Elements { .. } => false,
            BytesCodec::Shard(shard) => shard.table.has_checksum() && shard.chain.has_checksum(),
        };
        self.codec.checksum || of_compressor || of_shard
    }

    pub(crate) fn index_bytes(&self) -> u64 {
        match &self.packing {
            BytesCodec::Elements { .. } => 0,
            BytesCodec::Shard(shard) => {
                let inner = shard.table.chunks.saturating_mul(shard.chain.index_bytes());
                shard.table.bytes().saturating_add(inner)
            }
        }
    }
}

impl InnerShard {
    fn parse(sharding: &ShardingCodec, element: ElementType, shape: &[u64], depth: usize) -> Result<Self, Refusal> {
        if depth == DEPTH_MAX {
            return Refusal::unsupported(format!("shards within shards are read {DEPTH_MAX} deep; {INSTEAD}"));
        }
        let chunk_shape = sharding.chunk_shape.clone();
        let divides = |(shape, chunk): (&u64, &u64)| *chunk > 0 && shape.is_multiple_of(*chunk);
        if chunk_shape.len() != shape.len() || !shape.iter().zip(&chunk_shape).all(divides) {
            return Err(format!("chunks of {chunk_shape:?} don't divide shards of {shape:?}").into());
        }
        let per_shard: Vec<u64> = shape.iter().zip(&chunk_shape).map(|(shape, chunk)| shape / chunk).collect();
        let chain = Chain::parse(sharding.codecs, element, &chunk_shape, depth + 1)?;
        Ok(Self { table: sharding.table(&per_shard)?, chunk_shape, per_shard, chain })
    }
}

/// The dimensions in the order that the codecs `transpose` at the start of a chain give them, if there are any, and the
/// codecs behind these.
pub(super) fn transposes(codecs: &[Value], dimensions: usize) -> Result<(Option<Vec<usize>>, &[Value]), Refusal> {
    let mut order: Option<Vec<usize>> = None;
    for (at, codec) in codecs.iter().enumerate() {
        let Some(("transpose", configuration)) = named(codec) else { return Ok((order, &codecs[at..])) };
        let requested = configuration.and_then(|configuration| configuration.get("order")).unwrap_or(&Value::Null);
        let next = permutation(requested, dimensions).ok_or_else(|| {
            let requested = render_line(requested);
            format!("transpose has the order {requested}; expected {dimensions} dimensions, each once")
        })?;
        order = Some(order.map_or_else(|| next.clone(), |before| in_order(&before, &next)));
    }
    Ok((order, &[]))
}

fn permutation(value: &Value, dimensions: usize) -> Option<Vec<usize>> {
    let order: Vec<usize> = match value {
        // As drafts of the specification had it.
        Value::String(order) if order == "C" => (0..dimensions).collect(),
        Value::String(order) if order == "F" => (0..dimensions).rev().collect(),
        Value::Array(order) => order.iter().map(|dim| dim.as_u64().map(|dim| dim as usize)).collect::<Option<_>>()?,
        _ => return None,
    };
    let mut sorted = order.clone();
    sorted.sort_unstable();
    sorted.into_iter().eq(0..dimensions).then_some(order)
}

/// Whether dimensions in this order are as they were.
pub(super) fn is_c(order: &[usize]) -> bool {
    order.iter().enumerate().all(|(at, dim)| at == *dim)
}

fn is_big_endian(codec: &Value, element: ElementType) -> Result<bool, Refusal> {
    let endian = named(codec).and_then(|(_, configuration)| configuration?.get("endian"));
    match endian.and_then(text) {
        Some("little") => Ok(false),
        Some("big") => Ok(element.number_bytes() > 1),
        None if element.number_bytes() == 1 && endian.is_none_or(Value::is_null) => Ok(false),
        _ => Err("bytes has no endian; it is `little` or `big`".into()),
    }
}

/// The codec that says in which order bytes stand. Of one byte, there is no order.
pub(crate) fn bytes(big_endian: bool, number_bytes: usize) -> Value {
    match (number_bytes, big_endian) {
        (1, _) => json!({"name": "bytes"}),
        (_, true) => json!({"name": "bytes", "configuration": {"endian": "big"}}),
        (_, false) => json!({"name": "bytes", "configuration": {"endian": "little"}}),
    }
}

/// `blosc(cname=lz4, clevel=1, shuffle=bitshuffle)`.
pub(crate) fn describe(codec: &Value) -> String {
    let Some((name, configuration)) = named(codec) else { return render_line(codec) };
    let settings: Vec<_> = configuration
        .into_iter()
        .flatten()
        .map(|(key, value)| match value {
            // Those that begin so are numbers: see `json`.
            Value::String(text) if !text.starts_with('\0') => format!("{key}={text}"),
            Value::Array(codecs) if key.ends_with("codecs") => {
                format!("{key}=[{}]", codecs.iter().map(describe).collect::<Vec<_>>().join(", "))
            }
            _ => format!("{key}={}", render_line(value)),
        })
        .collect();
    if settings.is_empty() { name.to_owned() } else { format!("{name}({})", settings.join(", ")) }
}
