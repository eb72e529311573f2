//! The planes that become a frame of the next level: in a layer, or copied until the other of their pair comes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex as StdMutex};

use super::pump::Engine;
use super::unpack::gather_camera;
use crate::downsample::halver::Halver;
use crate::geometry::Tile;
use crate::pixels::Plane;
use crate::plan::Plan;
use crate::ring::Frame;
use crate::sync::Unpoisoned;

/// Where the pixels of a plane are.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// In its buffer.
    Frame(&'a Frame),
    /// Copied, as the array has them.
    Kept(&'a [u8]),
    /// It never came, and counts as the fill value.
    Missing,
}

/// A frame that waits for the other of its pair.
pub(super) struct Half {
    /// `None`: it is missing.
    pub(super) pixels: Option<Vec<u8>>,
    pub(super) is_first: bool,
}

/// Memory for such frames of all images of a pool, by its length: it is used again and again.
#[derive(Default)]
pub(super) struct Spares(StdMutex<BTreeMap<usize, Vec<Vec<u8>>>>);

impl Spares {
    fn take(&self, bytes: usize) -> Vec<u8> {
        let mut spares = self.0.lock().unpoisoned();
        spares.get_mut(&bytes).and_then(Vec::pop).unwrap_or_else(|| vec![0; bytes])
    }

    fn put(&self, pixels: Vec<u8>) {
        self.0.lock().unpoisoned().entry(pixels.len()).or_default().push(pixels);
    }
}

pub(super) struct Planes {
    spares: Arc<Spares>,
    /// A frame as it is in the array, and before it is turned, where a camera gives it otherwise.
    gathered: [Vec<u8>; 2],
    unpacked: Vec<u8>,
    /// A row of a plane that never came.
    fill: Vec<u8>,
}

impl Planes {
    pub(super) fn new(below: &Plan, spares: &Arc<Spares>) -> Self {
        let (_, columns) = size(below);
        let fill = below.frame.fill.repeat(columns);
        Self { spares: spares.clone(), gathered: Default::default(), unpacked: Vec::new(), fill }
    }

    /// A copy of a plane; `None` of one that is missing.
    pub(super) fn keep(&mut self, below: &Engine, source: Source<'_>) -> Option<Vec<u8>> {
        let Source::Frame(_) = source else { return None };
        let row_bytes = size(&below.plan).1 * below.plan.frame.dtype.size();
        let mut pixels = self.spares.take(below.plan.frame.array_bytes);
        let Self { gathered: [gathered, _], unpacked, fill, .. } = self;
        let plane = plane(below, source, gathered, unpacked, fill);
        for (y, row) in pixels.chunks_exact_mut(row_bytes).enumerate() {
            row.copy_from_slice(&plane.pixels[y * plane.row_stride..][..row_bytes]);
        }
        Some(pixels)
    }

    pub(super) fn give_back(&self, half: Half) {
        half.pixels.into_iter().for_each(|pixels| self.spares.put(pixels));
    }

    /// Reduces one plane, or two to one.
    pub(super) fn halve(&mut self, below: &Engine, halver: &mut Halver, sources: &[Source<'_>], out: &mut [u8]) {
        let Self { gathered: [first, second], unpacked, fill, .. } = self;
        match *sources {
            [one] => halver.halve(&[plane(below, one, first, unpacked, fill)], out),
            [one, other] => {
                let one = plane(below, one, first, unpacked, fill);
                halver.halve(&[one, plane(below, other, second, unpacked, fill)], out);
            }
            _ => unreachable!("one or two planes become one"),
        }
    }
}

/// Rows and columns of the array.
fn size(plan: &Plan) -> (usize, usize) {
    let [.., rows, columns] = plan.array.layout.shape[..] else { unreachable!("an array has rows and columns") };
    (rows as usize, columns as usize)
}

fn plane<'a>(
    below: &'a Engine,
    source: Source<'a>,
    gathered: &'a mut Vec<u8>,
    unpacked: &mut Vec<u8>,
    fill: &'a [u8],
) -> Plane<'a> {
    let plan = &below.plan.frame;
    let (rows, columns) = size(&below.plan);
    let row_bytes = columns * plan.dtype.size();
    let frame = match source {
        Source::Frame(frame) => frame,
        Source::Kept(pixels) => return Plane { pixels, row_stride: row_bytes, rows, columns },
        Source::Missing => return Plane { pixels: fill, row_stride: 0, rows, columns },
    };
    let pixels = below.ring.pixels(frame);
    match &plan.camera {
        None => Plane { pixels: &pixels[plan.layout.offset..], row_stride: plan.layout.row_stride, rows, columns },
        // As the array has them.
        Some(camera) => {
            let whole = Tile { y: 0, x: 0, rows, columns, shard: 0, chunk: 0 };
            gathered.resize(plan.array_bytes, 0);
            gather_camera(camera, plan, pixels, &whole, gathered, row_bytes, unpacked);
            Plane { pixels: gathered, row_stride: row_bytes, rows, columns }
        }
    }
}
