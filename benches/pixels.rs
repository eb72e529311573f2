//! What it takes to unpack, turn, take apart and halve pixels, beside `memcpy`, in turns: where tiles are gathered,
//! beside a gather of tiles of as many bytes (for one channel, of all channels' bytes); where an image is halved,
//! beside a copy with as many bytes read and written. One core, the time of its thread. NOTES.md beside this file says
//! what it gave.

#![allow(unsafe_code)]

use std::hint::black_box;

use shardwright::Dtype;
use shardwright::downsample::{Downsampler, Method};
use shardwright::pixels::{Flip, Interleaved, Orientation, Packing, Plane, Unpacker};

const TURNS: usize = 100;
/// Pixels of a side of the tiles that are gathered from an image one after the other, into the same room.
const TILE: usize = 256;
const CACHED: usize = 1 << 20;

/// Images of `side` × `side` pixels, read and written one behind the other.
struct Bench {
    turns: usize,
    side: usize,
    source: Vec<u8>,
    target: Vec<u8>,
    from: usize,
    to: usize,
}

fn main() {
    // `cargo test` runs benches too, to see that they work; one turn of small images tells.
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let turns = if is_bench { TURNS } else { 1 };
    bench("in the second cache", 256, CACHED, turns);
    if is_bench {
        bench("in memory", 1024, 256 << 20, turns);
    }
}

fn bench(place: &str, side: usize, bytes: usize, turns: usize) {
    let source = (0..bytes as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u8).collect();
    let mut bench = Bench { turns, side, source, target: vec![1; bytes], from: 0, to: 0 };
    let title = format!("{side} x {side} pixels {place}");
    println!("\n{title:<36} {:>8} {:>8} {:>8} {:>8}", "GB/s", "memcpy", "of it", "medians");
    println!("tiles, bytes written");
    bench.unpack();
    bench.turn();
    bench.take_apart();
    println!("images, bytes read and written");
    bench.halve();
}

impl Bench {
    fn unpack(&mut self) {
        let side = self.side;
        for packing in [
            Packing::Mono10p,
            Packing::Mono12p,
            Packing::Mono14p,
            Packing::Mono10Packed,
            Packing::Mono12Packed,
            Packing::Mono16 { big_endian: true, unused_low_bits: 0 },
            Packing::Mono16 { big_endian: false, unused_low_bits: 4 },
        ] {
            let unpacker = Unpacker::new(packing);
            let name = format!("{packing:?}").replace("unused_low_bits", "unused").replace("big_endian", "big");
            let mut tile = vec![0; TILE * TILE];
            self.gather(&name, unpacker.packed_bytes(side * side), 2, 2, |source, _| {
                for (y, x) in tiles(side) {
                    for (row, out) in tile.chunks_mut(TILE).enumerate() {
                        unpacker.unpack(source, (y + row) * side + x, out);
                    }
                }
                black_box(&mut tile);
            });
        }
    }

    fn turn(&mut self) {
        let side = self.side;
        for (name, orientation) in [
            ("flip columns", Orientation { transpose: false, flip: Flip::Columns }),
            ("quarter turn", Orientation::quarter_turns(1)),
        ] {
            for bytes in [1, 2, 4] {
                self.gather(&format!("{name}, u{}", 8 * bytes), bytes * side * side, bytes, bytes, |source, tile| {
                    let image = Plane { pixels: source, row_stride: side * bytes, rows: side, columns: side };
                    for (y, x) in tiles(side) {
                        orientation.tile(image, bytes, [y, x], [TILE, TILE], tile, TILE * bytes);
                    }
                });
            }
        }
    }

    fn take_apart(&mut self) {
        let side = self.side;
        for interleaved in [Interleaved::Three, Interleaved::Four] {
            let samples = interleaved.samples();
            for bytes in [1, 2] {
                let name = format!("one of {samples} samples, u{}", 8 * bytes);
                self.gather(&name, samples * bytes * side * side, bytes, samples * bytes, |source, tile| {
                    for (y, x) in tiles(side) {
                        for (row, out) in tile.chunks_mut(TILE * bytes).enumerate() {
                            let first = ((y + row) * side + x) * samples * bytes;
                            interleaved.channel(bytes, 1, &source[first..][..TILE * samples * bytes], out);
                        }
                    }
                });
            }
        }
    }

    fn halve(&mut self) {
        let side = self.side;
        for dtype in [Dtype::U8, Dtype::U16, Dtype::U32, Dtype::F32, Dtype::U64] {
            for (method, planes) in Method::ALL.iter().copied().flat_map(|method| [(method, 1), (method, 2)]) {
                // Decimation reads the even rows of one plane alone.
                let read_part = if method == Method::Decimate { 0.5 / planes as f64 } else { 1.0 };
                let downsampler = Downsampler::new(method, dtype);
                let bytes = dtype.size() * side * side;
                let row_stride = side * dtype.size();
                let read = (read_part * (planes * bytes) as f64) as usize;
                let name = format!("{method:?} of {dtype}, {planes}");
                self.compare(&name, planes * bytes, bytes / 4, (read + bytes / 4) / 2, |source, target| {
                    let plane = |at: usize| Plane { pixels: &source[at..], row_stride, rows: side, columns: side };
                    match planes {
                        1 => downsampler.plane(plane(0), target, row_stride / 2),
                        _ => downsampler.two_planes([plane(0), plane(bytes)], target, row_stride / 2),
                    }
                });
            }
        }
    }

    /// `work` gathers all tiles of an image into one place, with pixels of `pixel_bytes`; `memcpy` gathers those of an
    /// image with pixels of `copied_bytes`.
    fn gather(
        &mut self,
        name: &str,
        read: usize,
        pixel_bytes: usize,
        copied_bytes: usize,
        mut work: impl FnMut(&[u8], &mut [u8]),
    ) {
        let (mut tile, mut copied) = (vec![0; TILE * TILE * pixel_bytes], vec![0; TILE * TILE * copied_bytes]);
        let (mut ours, mut memcpy) = (Vec::new(), Vec::new());
        for _ in 0..self.turns {
            let source = next(&mut self.from, read, &self.source);
            ours.push(seconds(|| {
                work(black_box(source), &mut tile);
                black_box(&mut tile);
            }));
            let source = next(&mut self.from, copied_bytes * self.side * self.side, &self.source);
            memcpy.push(seconds(|| {
                for (y, x) in tiles(self.side) {
                    for (row, place) in copied.chunks_mut(TILE * copied_bytes).enumerate() {
                        let first = ((y + row) * self.side + x) * copied_bytes;
                        place.copy_from_slice(&black_box(source)[first..][..TILE * copied_bytes]);
                    }
                    black_box(&mut copied);
                }
            }));
        }
        report(name, pixel_bytes * self.side * self.side, ours, memcpy);
    }

    /// `work` makes an image of another one, `memcpy` copies this many bytes.
    fn compare(
        &mut self,
        name: &str,
        source_bytes: usize,
        written: usize,
        copied: usize,
        work: impl Fn(&[u8], &mut [u8]),
    ) {
        let (mut ours, mut memcpy) = (Vec::new(), Vec::new());
        for _ in 0..self.turns {
            let source = next(&mut self.from, source_bytes, &self.source);
            let target = next_mut(&mut self.to, written, &mut self.target);
            ours.push(seconds(|| work(black_box(source), black_box(target))));
            let source = next(&mut self.from, copied, &self.source);
            let target = next_mut(&mut self.to, copied, &mut self.target);
            memcpy.push(seconds(|| black_box(target).copy_from_slice(black_box(source))));
        }
        report(name, 2 * copied, ours, memcpy);
    }
}

/// Speeds and their ratio by the least times, and the ratio of the medians.
fn report(name: &str, bytes: usize, mut ours: Vec<f64>, mut memcpy: Vec<f64>) {
    ours.sort_by(f64::total_cmp);
    memcpy.sort_by(f64::total_cmp);
    let rate = |times: &[f64]| bytes as f64 / times[0] / 1e9;
    let ratio = |at: usize| 100.0 * memcpy[at] / ours[at];
    let name = name.chars().take(34).collect::<String>();
    let (least, median) = (ratio(0), ratio(ours.len() / 2));
    println!("  {name:<34} {:>8.1} {:>8.1} {least:>6.0} % {median:>6.0} %", rate(&ours), rate(&memcpy));
}

/// The next bytes, from the start again at the end, or where they shall stay in the cache.
fn next<'a>(at: &mut usize, count: usize, bytes: &'a [u8]) -> &'a [u8] {
    if *at + count > bytes.len() || bytes.len() <= CACHED {
        *at = 0;
    }
    *at += count;
    &bytes[*at - count..*at]
}

fn next_mut<'a>(at: &mut usize, count: usize, bytes: &'a mut [u8]) -> &'a mut [u8] {
    if *at + count > bytes.len() || bytes.len() <= CACHED {
        *at = 0;
    }
    *at += count;
    &mut bytes[*at - count..*at]
}

/// Row and column of each tile of an image.
fn tiles(side: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..side).step_by(TILE).flat_map(move |y| (0..side).step_by(TILE).map(move |x| (y, x)))
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = thread_seconds();
    work();
    thread_seconds() - start
}

fn thread_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is a valid one.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
