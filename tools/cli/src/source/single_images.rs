//! Micro-Manager's files of one image each, whose names say which plane they are.

use std::collections::{BTreeSet, HashMap};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::files::{open_regular, stays_inside};
use super::recording::{CameraRegion, named_channel};
use super::tiff::mmstack::{self, choose_position};
use super::tiff::planes::{PlaneSource, RecordingFacts};
use super::tiff::stack::Stack;
use super::why::{cannot, refused};
use crate::args::Series;
use crate::failure::Failure;

/// A summary of an acquisition, with a few lines for each image.
const METADATA_BYTES_MAX: u64 = 1 << 30;

/// What the name of a file of one image says of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NamedPosition {
    time: u64,
    channel: ChannelOfName,
    z: u64,
    pub(super) position: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum ChannelOfName {
    Number(u64),
    Name(String),
}

impl NamedPosition {
    /// `img_channel000_position000_time000000000_z000.tif` of Micro-Manager 2, which leaves out axes that there are
    /// not, or `img_000000000_DAPI_000.tif` of 1.4.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let rest = path.file_stem()?.to_str()?.strip_prefix("img_")?;
        let number = |digits: &str| digits.parse::<u64>().ok();
        if rest.starts_with(|first: char| first.is_ascii_digit()) {
            let (time, rest) = rest.split_once('_')?;
            let (channel, z) = rest.rsplit_once('_')?;
            let channel = ChannelOfName::Name(channel.to_owned());
            return Some(Self { time: number(time)?, channel, z: number(z)?, position: 0 });
        }
        let mut named = Self { time: 0, channel: ChannelOfName::Number(0), z: 0, position: 0 };
        for part in rest.split('_') {
            let (axis, digits) = part.split_at(part.find(|c: char| c.is_ascii_digit())?);
            let at = number(digits)?;
            match axis {
                "channel" => named.channel = ChannelOfName::Number(at),
                "position" => named.position = at,
                "time" => named.time = at,
                "z" => named.z = at,
                _ => return None,
            }
        }
        Some(named)
    }

    /// Whether the name says which position this is.
    pub(super) fn has_position(&self) -> bool {
        matches!(self.channel, ChannelOfName::Number(_))
    }
}

/// One position of a folder.
pub(super) fn find(
    path: &Path,
    files: Vec<PathBuf>,
    names: &[NamedPosition],
    series: Option<Series>,
) -> Result<RecordingFacts, Failure> {
    let positions: BTreeSet<u64> = names.iter().map(|name| name.position).collect();
    let position = choose_position(&positions, series, path)?;
    let here = files.into_iter().zip(names).filter(|(_, name)| name.position == position).collect();
    let found = find_one(path, here, names)?;
    Ok(RecordingFacts { series: positions.into_iter().collect(), ..found })
}

/// The position to which these files of a folder belong. `all`: the names of all positions' files. They have the same
/// sizes, so that planes that only others have are missing here.
pub(super) fn find_one<'a>(
    path: &Path,
    here: Vec<(PathBuf, &NamedPosition)>,
    all: impl IntoIterator<Item = &'a NamedPosition> + Clone,
) -> Result<RecordingFacts, Failure> {
    let channels: BTreeSet<&ChannelOfName> = all.clone().into_iter().map(|name| &name.channel).collect();
    let channels: Vec<_> = channels.into_iter().collect();
    let are_numbers = matches!(channels[..], [ChannelOfName::Number(_), ..]);
    let channel_of = |name: &NamedPosition| match &name.channel {
        ChannelOfName::Number(number) => *number,
        name => channels.iter().position(|channel| *channel == name).unwrap_or(0) as u64,
    };
    let size = |value: &dyn Fn(&NamedPosition) -> u64| {
        all.clone().into_iter().map(|name| value(name).saturating_add(1)).max().unwrap_or(1)
    };
    let sizes = [size(&channel_of), size(&|name| name.z), size(&|name| name.time)];
    let position = here.first().map_or(0, |(_, name)| name.position);
    let mut axes = mmstack::axes(&summary(path), sizes, position);
    if !are_numbers && channels.len() > 1 {
        let named = |channel: &&ChannelOfName| {
            if let ChannelOfName::Name(name) = channel { name.clone() } else { String::new() }
        };
        // The summary lists them in an order of its own.
        let said = |name: String| axes.channels.iter().find(|said| said.label == name).cloned().ok_or(name);
        let said = channels.iter().map(|channel| said(named(channel)).unwrap_or_else(|name| named_channel(&name)));
        axes.channels = said.collect();
    }
    let regions = regions(path);
    let mut planes = RecordingFacts::room(&axes, here.len() as u64).map_err(|why| cannot("read", path, why))?;
    let mut notes = Vec::new();
    for (file, (image, name)) in here.iter().enumerate() {
        stays_inside(path, image).map_err(|why| refused(image, why))?;
        let stack = Stack::open(image)?;
        let at = axes.outer.iter().fold(0, |at, axis| {
            at * axis.size
                + match axis.name.as_str() {
                    "c" => channel_of(name),
                    "z" => name.z,
                    _ => name.time,
                }
        });
        let region = image.file_name().and_then(|name| regions.get(name.to_str()?)).copied();
        planes[at as usize] = Some(PlaneSource { region, ..stack.plane(file, 0)? });
        notes.extend(stack.notes());
    }
    notes.sort_unstable();
    notes.dedup();
    let files = here.into_iter().map(|(file, _)| file).collect();
    Ok(RecordingFacts { axes, files, planes, notes, defect: None, series: Vec::new() })
}

/// What is read of `metadata.txt`; the rest is of single images.
#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default, rename = "Summary")]
    summary: Value,
}

/// `Summary` of `metadata.txt`; nothing if there is none, or only half of it.
pub(super) fn summary(path: &Path) -> Value {
    metadata::<Metadata>(path).unwrap_or_default().summary
}

/// What is read of an image in `metadata.txt`.
#[derive(Deserialize)]
struct ImageMetadata {
    #[serde(default, rename = "ROI")]
    region: Value,
    #[serde(default, rename = "FileName")]
    file: Value,
}

/// The parts of the sensor that `metadata.txt` names, by the names of files.
fn regions(path: &Path) -> HashMap<String, CameraRegion> {
    let images = metadata::<HashMap<String, ImageMetadata>>(path).unwrap_or_default();
    let named = images.iter().filter_map(|(key, image)| {
        // Version 2 names the folder, too, and the key of a file ends with its name.
        let file = image.file.as_str().unwrap_or(key).rsplit('/').next()?;
        Some((file.to_owned(), CameraRegion::of(&image.region)?))
    });
    named.collect()
}

/// What is asked for of `metadata.txt`.
fn metadata<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let file = path.join("metadata.txt");
    stays_inside(path, &file).ok()?;
    let file = open_regular(&file).ok()?;
    let is_short = file.metadata().ok()?.len() < METADATA_BYTES_MAX;
    is_short.then(|| serde_json::from_reader(BufReader::new(file)).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_single_images() {
        let new = NamedPosition::of(Path::new("d/img_channel001_position002_time000000003_z004.tif")).unwrap();
        assert_eq!(new, NamedPosition { time: 3, channel: ChannelOfName::Number(1), z: 4, position: 2 });
        let short = NamedPosition::of(Path::new("img_channel001_z004.tif")).unwrap();
        assert_eq!(short, NamedPosition { time: 0, position: 0, ..new });
        let old = NamedPosition::of(Path::new("img_000000003_a_DAPI_004.tif")).unwrap();
        assert_eq!(old, NamedPosition { time: 3, channel: ChannelOfName::Name("a_DAPI".into()), z: 4, position: 0 });
        for other in ["img_1.tif", "img_channel001_gain002.tif", "img_channel.tif"] {
            assert_eq!(NamedPosition::of(Path::new(other)), None, "{other}");
        }
    }
}
