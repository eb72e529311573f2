//! Where the time of a run goes: gather, encode, store, checkpoint, shard close, for each codec and each way of
//! writing.
//!
//! `cargo bench --bench stages -- [--frames 256] [--folder DIR]`; without `--folder` in a temporary one. 2048 × 2048
//! u16, chunks 1 × 512 × 512, shards of 64 frames, as fast as they go. The rates are those of one worker's time; close
//! and checkpoint run beside the workers.

#[allow(dead_code)]
mod camera;

use std::error::Error;
use std::path::{Path, PathBuf};

use shardwright::{Acquisition, BloscCname, Compressor, Config, Dim, Record, Shuffle, Stage, StorageKind, Summary};

const SIDE: u64 = 2048;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let value = |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1));
    let frames: u64 = value("--frames").map_or(Ok(8), |word| word.parse())?;
    let temporary = tempfile::tempdir()?;
    let folder = value("--folder").map_or_else(|| temporary.path().to_path_buf(), PathBuf::from);
    let frame = camera::frame(SIDE as usize, 2);
    let blosc = |cname| Compressor::Blosc { cname, level: 1, shuffle: Shuffle::Bit, block_bytes: 0 };
    let codecs =
        [("none", Compressor::None), ("blosc-lz4", blosc(BloscCname::Lz4)), ("blosc-zstd", blosc(BloscCname::Zstd))];
    println!(
        "codec        storage    run GB/s   gather GB/s  encode GB/s  store GB/s  checkpoint p50/max ms  close \
         p50/max ms"
    );
    for (name, compressor) in codecs {
        for storage in [StorageKind::Mapped, StorageKind::Buffered, StorageKind::Direct] {
            let summary = run(&folder, &frame, frames, compressor, storage)?;
            let bytes = summary.bytes_in as f64;
            let rate = |stage| bytes / summary.stage(stage).total_ns.max(1) as f64;
            let ms = |ns: u64| ns as f64 / 1e6;
            let (checkpoint, close) = (summary.stage(Stage::Checkpoint), summary.stage(Stage::CloseShard));
            let way = summary.storage.split(' ').next().unwrap_or_default();
            println!(
                "{name:<12} {way:<9} {:>9.2} {:>13.2} {:>12.2} {:>11.2} {:>14.1} / {:<8.1} {:>7.1} / {:<8.1}",
                bytes / summary.elapsed.as_secs_f64() / 1e9,
                rate(Stage::Gather),
                rate(Stage::Encode),
                rate(Stage::Store),
                ms(checkpoint.p50_ns),
                ms(checkpoint.max_ns),
                ms(close.p50_ns),
                ms(close.max_ns),
            );
        }
    }
    Ok(())
}

fn run(
    folder: &Path,
    frame: &[u8],
    frames: u64,
    compressor: Compressor,
    storage: StorageKind,
) -> Result<Summary, Box<dyn Error>> {
    let path = folder.join("stages-bench.zarr");
    let dims = vec![Dim::time(None).shard(64), Dim::y(SIDE).chunk(512), Dim::x(SIDE).chunk(512)];
    let config =
        Config { dims, codec: compressor.into(), storage, ring_bytes: 512 << 20, overwrite: true, ..Config::default() };
    let acquisition = Acquisition::create(&path, config)?;
    for number in 0..frames {
        let mut slot = acquisition.acquire()?;
        slot.copy_from_slice(frame);
        slot.commit(number, Record::default())?;
    }
    let summary = acquisition.finish()?;
    std::fs::remove_dir_all(&path)?;
    Ok(summary)
}
