//! Frames that a camera took of several places of its sensor, as its region of interest moved.

use std::path::Path;

use shardwright::Roi;

use super::recording::{CameraRegion, MovingRegion, Recording};
use crate::args::{MovingRoi, RecordingArgs};
use crate::failure::Failure;

/// An image has no side longer than this.
const SIDE_MAX: u64 = 1 << 24;

/// Tells what is said of the frames' regions. `regions`: of all planes that are there.
pub(super) fn note(recording: &mut Recording, regions: impl Iterator<Item = Option<CameraRegion>> + Clone) {
    let Some(first) = regions.clone().flatten().next() else { return };
    let sides = recording.sides();
    let has_size = |region: &CameraRegion| [region.height, region.width] == sides;
    let Some(other) = regions.clone().flatten().find(|region| *region != first) else {
        // Of another size, it is no longer that of the frames, which a program may have turned or cut.
        recording.region = Some(first).filter(has_size);
        return;
    };
    recording.region = None;
    if regions.clone().all(|region| region.as_ref().is_some_and(has_size)) {
        let around = regions.clone().flatten().fold(first, CameraRegion::around);
        let is_odd = |region: &CameraRegion| (region.x ^ first.x | region.y ^ first.y) & 1 == 1;
        let odd = regions.flatten().find(is_odd);
        recording.moving = Some(MovingRegion { around, differing: [first, other], odd });
    } else {
        let why = "the camera's region of interest changes, and is not kept: it is not told of all frames as they are";
        recording.notes.push(why.to_owned());
    }
}

/// Refuses one pattern of colours for frames that begin with different colours.
pub(super) fn refuse_pattern(recording: &Recording, args: &RecordingArgs, input: &Path) -> Result<(), Failure> {
    let odd = recording.moving.as_ref().and_then(|moving| Some((moving.differing[0], moving.odd?)));
    let (Some(pattern), Some(MovingRoi::Ignore), Some((first, odd))) = (&args.bayer, args.moving_roi, odd) else {
        return Ok(());
    };
    Err(Failure::Usage(format!(
        "--bayer {pattern} is not the pattern of all frames of {}: the camera's region of interest moves by an odd \
         number of pixels ({first} and {odd} in x-y-width-height); --moving-roi pad puts each frame at its place",
        input.display()
    )))
}

/// Makes room for all places of the frames, or leaves these out, as the command line says.
pub(super) fn settle(recording: &mut Recording, wanted: Option<MovingRoi>, input: &Path) -> Result<(), Failure> {
    let Some(MovingRegion { around, differing: [one, other], .. }) = recording.moving.take() else { return Ok(()) };
    let moves = format!("the camera's region of interest moves ({one} and {other} in x-y-width-height)");
    match wanted {
        None => Err(Failure::Usage(format!(
            "{}: {moves}; --moving-roi pad puts each frame at its place in {} x {} pixels and records that, \
             --moving-roi ignore takes frames as they are",
            input.display(),
            around.width,
            around.height
        ))),
        Some(MovingRoi::Ignore) => {
            recording.notes.push(format!("{moves}, and is not kept"));
            Ok(())
        }
        Some(MovingRoi::Pad) if around.width.max(around.height) > SIDE_MAX => {
            let (width, height) = (around.width, around.height);
            Err(Failure::Input(format!("{}: {moves}: {width} x {height} pixels around all", input.display())))
        }
        Some(MovingRoi::Pad) => {
            let [.., rows, columns] = &mut recording.dims[..] else { unreachable!("a recording has rows and columns") };
            (rows.size, columns.size) = (Some(around.height), Some(around.width));
            recording.region = Some(around);
            recording.first_place = [one.y - around.y, one.x - around.x];
            recording.is_padded = true;
            Ok(())
        }
    }
}

/// Where a region is in the one around it.
pub(super) fn place(region: CameraRegion, around: CameraRegion) -> Roi {
    let [y, x, height, width] = [region.y - around.y, region.x - around.x, region.height, region.width];
    Roi { y: y as usize, x: x as usize, height: height as usize, width: width as usize }
}

/// Lays the pixels of a part, each of `pixel_bytes`, into a frame of `columns`.
pub(super) fn lay(part: &[u8], roi: Roi, pixel_bytes: usize, columns: usize, frame: &mut [u8]) {
    let row_bytes = columns * pixel_bytes;
    let rows = frame.chunks_exact_mut(row_bytes).skip(roi.y);
    for (row, of_part) in rows.zip(part.chunks_exact(roi.width * pixel_bytes)) {
        row[roi.x * pixel_bytes..][..of_part.len()].copy_from_slice(of_part);
    }
}

#[cfg(test)]
mod tests {
    use shardwright::{Dim, Dtype};

    use super::*;

    fn region(x: u64, y: u64) -> CameraRegion {
        CameraRegion { x, y, width: 3, height: 2 }
    }

    fn told(regions: &[Option<CameraRegion>]) -> Recording {
        let mut recording = Recording::movie(Dtype::U16, Some(regions.len() as u64), 2, 3);
        note(&mut recording, regions.iter().copied());
        recording
    }

    #[test]
    fn a_region_that_moves_is_refused_or_padded_or_ignored() {
        let recording = told(&[Some(region(10, 20)), Some(region(14, 19)), Some(region(10, 20))]);
        let settled = |wanted| {
            let mut recording = recording.clone();
            settle(&mut recording, wanted, Path::new("run")).map(|()| recording)
        };
        let refused = settled(None).unwrap_err().to_string();
        for says in ["moves (10-20-3-2 and 14-19-3-2 in ", "--moving-roi pad", "7 x 3 pixels", "--moving-roi ignore"] {
            assert!(refused.contains(says), "{refused}");
        }
        let padded = settled(Some(MovingRoi::Pad)).unwrap();
        assert_eq!(padded.dims, [Dim::time(3), Dim::y(3), Dim::x(7)]);
        assert_eq!(padded.region, Some(CameraRegion { x: 10, y: 19, width: 7, height: 3 }));
        assert!(padded.is_padded && padded.first_place == [1, 0] && padded.notes.is_empty());
        let ignored = settled(Some(MovingRoi::Ignore)).unwrap();
        assert_eq!((ignored.dims, ignored.region), (recording.dims.clone(), None));
        assert!(!ignored.is_padded && ignored.notes[0].contains("is not kept"), "{:?}", ignored.notes);
        let far = told(&[Some(region(0, 0)), Some(region(u64::MAX, u64::MAX))]);
        settle(&mut far.clone(), Some(MovingRoi::Pad), Path::new("run")).unwrap_err();
    }

    #[test]
    fn what_says_no_region_of_each_frame_does_not_move() {
        for (regions, kept) in [
            (&[None, None][..], None),
            (&[Some(region(1, 2)), Some(region(1, 2))], Some(region(1, 2))),
            (&[Some(region(1, 2)), None], Some(region(1, 2))),
        ] {
            let mut recording = told(regions);
            assert!(recording.moving.is_none() && recording.notes.is_empty(), "{regions:?}");
            settle(&mut recording, None, Path::new("run")).unwrap();
            assert_eq!(recording.region, kept, "{regions:?}");
        }
        // Nobody knows where all of these are.
        let turned = CameraRegion { x: 1, y: 2, width: 2, height: 3 };
        for other in [[None, Some(region(3, 2))], [Some(turned), Some(turned)]] {
            let recording = told(&[&[Some(region(1, 2))][..], &other].concat());
            assert_eq!((recording.region, recording.moving), (None, None));
            assert!(recording.notes[0].contains("region of interest changes"), "{:?}", recording.notes);
        }
    }

    #[test]
    fn a_part_stands_at_its_place() {
        let around = CameraRegion { x: 9, y: 19, width: 4, height: 3 };
        let mut frame = [0; 4 * 3 * 2];
        let roi = place(region(10, 20), around);
        assert_eq!((roi.y, roi.x, roi.height, roi.width), (1, 1, 2, 3));
        lay(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], roi, 2, 4, &mut frame);
        assert_eq!(frame, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0, 7, 8, 9, 10, 11, 12]);
    }
}
