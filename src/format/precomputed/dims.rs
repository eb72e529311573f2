//! The dimensions of an array that is a volume.

use serde_json::Value;

use super::volume::{CHANNEL, X, Y, Z};
use crate::error::Refusal;
use crate::format::provenance;
use crate::json::{render_line, text};

pub(super) struct Dims {
    pub(super) names: Vec<String>,
    pub(super) roles: Vec<usize>,
}

impl Dims {
    /// Those that the writer had, if it says so.
    pub(super) fn new(own: &Value, channels: u64) -> Result<Self, Refusal> {
        let Some((names, channel)) = provenance::dimensions(own) else {
            let dims = [("c", CHANNEL), ("z", Z), ("y", Y), ("x", X)].into_iter().skip(usize::from(channels == 1));
            let (names, roles) = dims.map(|(name, role)| (name.to_owned(), role)).unzip();
            return Ok(Self { names, roles });
        };
        let wrong = || format!("the writer's dimensions are {}, which a volume can't have", render_line(names));
        let names: Option<Vec<String>> =
            names.as_array().and_then(|names| names.iter().map(|name| text(name).map(str::to_owned)).collect());
        let names = names.ok_or_else(wrong)?;
        let channel = channel.and_then(|channel| names.iter().position(|name| name == channel));
        let outer = names.len().checked_sub(2).filter(|&outer| outer <= 2).ok_or_else(wrong)?;
        let mut roles: Vec<usize> =
            (0..outer).map(|dim| if Some(dim) == channel { CHANNEL } else { Z }).chain([Y, X]).collect();
        roles.dedup();
        // Channels that no dimension has would be lost.
        if roles.len() != names.len() || (channels > 1 && !roles.contains(&CHANNEL)) {
            return Err(wrong().into());
        }
        Ok(Self { names, roles })
    }
}
