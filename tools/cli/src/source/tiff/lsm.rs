//! Zeiss LSM: each plane a page with its channels as samples, a thumbnail behind each, and a private field that says
//! what the planes are.
//!
//! ```text
//!   0  magic       u32  0x0300494C or 0x0400494C      56  voxel z      f64  in meters, as
//!   4  bytes       i32  of the structure              40  voxel x, y   f64  these
//!   8  x, y, z     i32  sizes                         88  scan type    u16
//!  20  channels    i32                               112  interval     f64  in seconds
//!  24  time        i32                               264  positions    i32  then tiles, from version 5 on
//! ```
//!
//! Source: "LSM 5/7 file format description", release 2.3.

use super::super::axes::{Axes, OuterAxis, Step};
use super::super::why::{Why, cannot};
use super::ifd::ByteOrder;
use super::page::{PageData, StripOrTile, TiffCompression};
use super::pages::in_order;
use super::planes::RecordingFacts;
use super::stack::Stack;
use crate::failure::Failure;

const MAGICS: [u64; 2] = [0x0300_494C, 0x0400_494C];

/// Where a 32-bit offset is no longer one.
const WRAPS_AT: u64 = 1 << 32;

/// The planes of a file whose first page has that field.
pub(super) fn find(stack: Stack, info: &[u8]) -> Result<RecordingFacts, Failure> {
    let path = stack.path.clone();
    let (axes, mut stack) = axes(&stack, info).map(|axes| (axes, stack)).map_err(|why| cannot("read", &path, why))?;
    if stack.len >= WRAPS_AT {
        let why = "it is an LSM file beyond 4 GB, whose offsets are not read here; convert it with bioformats2raw";
        return Err(cannot("read", &path, Why::Unread(why.to_owned())));
    }
    // Of compressed pieces it gives the lengths that they have uncompressed.
    let len = stack.len;
    for page in stack.entries.iter_mut().filter_map(|entry| entry.page.as_mut().ok()) {
        if let (false, PageData::Pieces(pieces)) = (page.form.compression == TiffCompression::None, &page.place) {
            let cut = |piece: &StripOrTile| StripOrTile {
                bytes: piece.bytes.min(len.saturating_sub(piece.offset)),
                ..*piece
            };
            page.place = PageData::Pieces(pieces.iter().map(cut).collect());
        }
    }
    let planes = axes.planes().unwrap_or(u64::MAX);
    let pages = stack.full_pages().count() as u64;
    if pages > planes || (pages < planes && stack.defect.is_none()) {
        let why = format!("its LSM information means {planes} planes, but it has {pages} pages");
        return Err(cannot("read", &path, why));
    }
    in_order(stack, axes)
}

fn axes(stack: &Stack, info: &[u8]) -> Result<Axes, Why> {
    let number = |at: usize, bytes: usize| info.get(at..at + bytes).map(|bytes| ByteOrder::Little.number(bytes));
    if info.len() < 120 || !number(0, 4).is_some_and(|magic| MAGICS.contains(&magic)) {
        return Err("its LSM information is not what it should be".into());
    }
    let size = |at| number(at, 4).filter(|&size| size < 1 << 31).unwrap_or(0);
    if size(264) > 1 || size(268) > 1 {
        return Why::unread(
            "it is an LSM file of several positions, which is not read here; convert it with bioformats2raw",
        );
    }
    let step = |at| number(at, 8).map(f64::from_bits).filter(|value| value.is_finite() && *value > 0.0);
    let length = |at| -> Option<Step> { Some((step(at)? * 1e6, "micrometer")) };
    let time = OuterAxis::new("t", size(24)).step(step(112).map(|seconds| (seconds, "second")));
    let depth = OuterAxis::new("z", size(16)).step(length(56));
    let outer = match number(88, 2) {
        Some(0) => vec![depth],
        Some(3) => vec![time],
        Some(6 | 7) => vec![time, depth],
        other => {
            let kind = other.unwrap_or(0);
            return Why::unread(format!(
                "it is an LSM file of scan type {kind}, no frames of x and y, as 0, 3 and 6 are"
            ));
        }
    };
    let samples = stack.entries[0].page.as_ref().map_or(1, |page| page.form.shape.samples);
    if size(20).max(1) != samples {
        return Err(format!("its LSM information means {} channels, but its pages have {samples}", size(20)).into());
    }
    Ok(Axes { outer, y_step: length(48), x_step: length(40), ..Axes::default() })
}
