//! The books of a run: what its summary, documents, records and pixels say of each frame must be the same, and true.

use super::{checked, recovered, zip};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use serde_json::Value;
use shardwright::offline::Array;
use shardwright::{Config, Dialect, Summary};

use super::Expected;

/// What a program knows of a run: which numbers were accepted, and their pixels.
pub struct Books<'a> {
    pub config: &'a Config,
    pub accepted: &'a BTreeSet<u64>,
    pub pixels: &'a dyn Fn(u64) -> Vec<u8>,
    /// Documents or records may not be there, because they could not be written: then recover puts them right.
    pub documents_failed: bool,
}

fn flat(ranges: &[Range<u64>]) -> BTreeSet<u64> {
    ranges.iter().cloned().flatten().collect()
}

/// The writer's own attributes.
pub fn own(path: &Path, dialect: Dialect) -> Value {
    let (file, pointer) = match dialect {
        Dialect::Zarr3 | Dialect::Zarr3Transformer => ("zarr.json", "/attributes/shardwright"),
        Dialect::Zarr2Sharded => (".zattrs", "/shardwright"),
        _ => ("info", "/shardwright"),
    };
    let file = if dialect == Dialect::Zarr3Transformer { "meta/root.group.json" } else { file };
    let document: Value = serde_json::from_slice(&zip::read(path, file)).unwrap();
    document.pointer(pointer).unwrap_or_else(|| panic!("{document:#} lacks {pointer}")).clone()
}

pub fn missing_of(own: &Value) -> Vec<Range<u64>> {
    let ranges: Vec<[u64; 2]> = serde_json::from_value(own["missing"].clone()).unwrap();
    ranges.into_iter().map(|[start, end]| start..end).collect()
}

pub fn frame_numbers(path: &Path) -> Vec<i64> {
    let bytes = Array::open(path.join("records/frame_number")).unwrap().read_all().unwrap();
    bytes.chunks_exact(8).map(|value| i64::from_le_bytes(value.try_into().unwrap())).collect()
}

impl Books<'_> {
    /// Checks the books of a run that ended with `summary`, of which `path` is the dataset: each number below the
    /// array's end is written or missing; what was accepted is written, or lost to the error that the run ended with.
    pub fn check(&self, path: &Path, summary: &Summary) {
        let missing = flat(&summary.missing);
        assert_eq!(missing.len() as u64, summary.frames_missing, "{summary:?}");
        assert_eq!(summary.frames_accepted, self.accepted.len() as u64, "accepted: {summary:?}");
        let end = summary.frames_written + summary.frames_missing;
        let written: BTreeSet<u64> = (0..end).filter(|number| !missing.contains(number)).collect();
        assert_eq!(written.len() as u64, summary.frames_written, "missing beyond {end}: {summary:?}");
        let never: Vec<_> = written.difference(self.accepted).collect();
        assert!(never.is_empty(), "{never:?} never came and count as written: {summary:?}");
        let lost: Vec<_> = self.accepted.difference(&written).collect();
        assert!(lost.is_empty() || summary.error.is_some(), "{lost:?} are lost without an error: {summary:?}");
        if self.documents_failed {
            return self.check_recovered(path, &written);
        }
        self.check_dataset(path, &missing, end);
        let own = own(path, self.config.dialect);
        assert_eq!(missing_of(&own), summary.missing, "{own:#}");
        assert_eq!(own["complete"], summary.error.is_none(), "{own:#}");
        let shape: Vec<u64> = summary.shape.clone();
        let places: u64 = shape[..shape.len() - 2].iter().product();
        assert!(end <= places, "{end} frames in {shape:?}");
        if summary.error.is_some() {
            self.check_recovered(path, &written);
        }
    }

    /// Checks what a dataset says of its frames below `end`, of which `missing` are not there.
    pub fn check_dataset(&self, path: &Path, missing: &BTreeSet<u64>, end: u64) {
        let own = own(path, self.config.dialect);
        assert_eq!((&own["frames"], &own["frames_missing"]), (&end.into(), &missing.len().into()), "{own:#}");
        let numbers = frame_numbers(path);
        assert!(numbers.len() as u64 >= end || numbers.is_empty(), "{} records of {end}", numbers.len());
        for (place, &number) in (0..end).zip(&numbers) {
            let right = if missing.contains(&place) { number == -1 || number == -3 } else { number == place as i64 };
            assert!(right, "frame {place} has the number {number}; missing: {}", missing.contains(&place));
        }
        let after = numbers.iter().skip(end as usize).find(|number| **number >= 0);
        assert_eq!(after, None, "beyond {end}");
        self.check_pixels(path, missing, end);
        // What could not be finished is for recover to find.
        let verification = checked(path).unwrap();
        assert!(verification.damage == 0 || own["complete"] == false, "{verification:#?}");
    }

    /// Recovers a dataset and checks its books afterwards: nothing is there that was not accepted, all is that was
    /// `written`, and the report, the documents, the records and the pixels say the same.
    pub fn check_recovered(&self, path: &Path, written: &BTreeSet<u64>) {
        let recovery = recovered(path, true).unwrap();
        let image = &recovery.images[0];
        let (own, missing) = (own(path, self.config.dialect), flat(&image.missing));
        if own["complete"] == false {
            assert_eq!(missing_of(&own), image.missing, "{own:#}");
            assert_eq!((&own["frames"], &own["frames_missing"]), (&image.frames.into(), &missing.len().into()));
        }
        let gone: Vec<_> = written.intersection(&missing).collect();
        assert!(gone.is_empty(), "{gone:?} were written and are missing: {recovery:#?}");
        for (place, number) in (0..image.frames).zip(frame_numbers(path)) {
            let right = match number {
                -1 | -3 => missing.contains(&place),
                // In a chunk of several frames of which some did not come, and no record was written.
                -2 => !missing.contains(&place),
                _ => number == place as i64 && self.accepted.contains(&place) && !missing.contains(&place),
            };
            assert!(right, "frame {place} has the number {number}; missing: {}", missing.contains(&place));
        }
        let unknown: BTreeSet<u64> = (0..image.frames).filter(|number| !self.accepted.contains(number)).collect();
        self.check_pixels(path, &missing.union(&unknown).copied().collect(), image.frames);
        let verification = checked(path).unwrap();
        assert_eq!(verification.damage, 0, "{:?}\n{recovery:#?}\n{own:#}", verification.findings);
        assert!(!recovered(path, false).unwrap().is_needed());
    }

    fn check_pixels(&self, path: &Path, missing: &BTreeSet<u64>, end: u64) {
        let array = match self.config.dialect {
            Dialect::Zarr3 => Array::open(path.join("0")).unwrap(),
            _ => Array::open(path).unwrap(),
        };
        // A planned array may be far longer than what came.
        let mut shape = array.shape().to_vec();
        shape[0] = shape[0].min(end.max(1));
        let mut expected = Expected::new(&shape, self.config.dtype);
        let mut found = vec![0; expected.pixels.len()];
        array.read_region(&vec![0; shape.len()], &shape, &mut found).unwrap();
        expected.pixels.copy_from_slice(&found);
        for number in (0..end).filter(|number| !missing.contains(number)) {
            expected.put(self.config, number, &(self.pixels)(number));
        }
        // What never came is the fill value; what came and was lost may be there all the same.
        for &number in missing.iter().filter(|number| !self.accepted.contains(number) && **number < end) {
            let mut innermost = self.config.dims.iter().rev();
            let (x, y) = (innermost.next(), innermost.next());
            let elements: u64 = [x, y].into_iter().flatten().map(|dim| dim.size.unwrap()).product();
            expected.put(self.config, number, &vec![0; elements as usize * self.config.dtype.size()]);
        }
        if let Some(at) = expected.pixels.iter().zip(&found).position(|(expected, found)| expected != found) {
            panic!("byte {at} of the array {:?} is not that of its frame", array.shape());
        }
    }
}
