//! What the C interface costs: the same frames through C and through Rust, in turns, and the time of acquire plus
//! commit.
//!
//! ```text
//! cargo bench --bench capi [-- --folder DIR | --discard] [--rounds N] [--only WORDS]
//! ```
//!
//! The library is built and installed by `tools/install-c` first; the C program is `benches/capi.c`. Give it a folder
//! on a memory file system, or let it discard what is written if the kernel's part scatters too much, and a quiet
//! machine: only the ratios within one run count. Two ratios are printed: the median of those of two runs in a row,
//! each in a process of its own, and that of the upper quartiles.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use shardwright::{Acquisition, Blob, Codec, Compressor, Config, Dim, Record, Storage};

#[path = "camera/mod.rs"]
#[allow(dead_code)]
mod camera;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Name, side of a frame, frames, ring bytes, compressor, its number in the header, frames a chunk.
type Case = (&'static str, usize, usize, usize, Compressor, u32, u64);

const CASES: [Case; 5] = [
    // The ring holds all frames, so that no call waits for a worker. In deep chunks most commits only add a frame; in
    // flat ones each also tells the workers of a layer.
    ("calls alone, 64 deep", 64, 20_000, 256 << 20, Compressor::None, 0, 64),
    ("calls alone, 1 deep", 64, 20_000, 256 << 20, Compressor::None, 0, 1),
    ("none, 2048x2048", 2048, 256, 512 << 20, Compressor::None, 0, 1),
    ("blosc-noise, 2048x2048", 2048, 256, 512 << 20, Compressor::BloscNoise { block_bytes: 0 }, 2, 1),
    ("zstd 1, 1024x1024", 1024, 256, 512 << 20, Compressor::Zstd { level: 1 }, 3, 1),
];

struct Measured {
    bytes_per_second: f64,
    p50_ns: f64,
    p99_ns: f64,
}

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if let [first, rest @ ..] = &words[..]
        && first == "through-rust"
    {
        return through_rust(rest);
    }
    let option = |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1));
    let folder = option("--folder").map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(folder)?;
    let rounds: usize = option("--rounds").map_or(Ok(5), |text| text.parse())?;
    let discard = words.iter().any(|word| word == "--discard");
    let output = |name: &str| if discard { "-".into() } else { folder.path().join(name) };
    let program = build(folder.path())?;
    println!(
        "{:<24} {:>10} {:>10} {:>7} {:>11}   acquire+commit p50, p99: C; Rust",
        "", "C GB/s", "Rust GB/s", "ratio", "undisturbed"
    );
    let only = option("--only").map_or("", |words| words);
    for case in CASES.into_iter().filter(|case| case.0.contains(only)) {
        let frames = folder.path().join("frames");
        let pixels: Vec<u8> = (0..8).flat_map(|_| camera::frame(case.1, 2)).collect();
        std::fs::write(&frames, &pixels)?;
        let (mut c, mut rust) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let through_c = || run(&mut Command::new(&program), &frames, &output("c.zarr"), &case);
            // Whoever comes second in a round finds a warmer machine, so they change places.
            if round % 2 == 0 {
                c.push(through_c()?);
            }
            let mut itself = Command::new(std::env::current_exe()?);
            rust.push(run(itself.arg("through-rust"), &frames, &output("rust.zarr"), &case)?);
            if round % 2 == 1 {
                c.push(through_c()?);
            }
        }
        let [c_rate, rust_rate] = [&c, &rust].map(|all| median(all.iter().map(|one| one.bytes_per_second)) / 1e9);
        let times = |all: &[Measured]| {
            let [p50, p99] =
                [|one: &Measured| one.p50_ns, |one: &Measured| one.p99_ns].map(|of| median(all.iter().map(of)));
            format!("{p50:.0} ns, {p99:.0} ns")
        };
        let ratio = median(c.iter().zip(&rust).map(|(c, rust)| c.bytes_per_second / rust.bytes_per_second));
        let undisturbed = upper_quartile(&c) / upper_quartile(&rust);
        println!(
            "{:<24} {c_rate:>10.3} {rust_rate:>10.3} {ratio:>7.3} {undisturbed:>11.3}   {}; {}",
            case.0,
            times(&c),
            times(&rust)
        );
    }
    Ok(())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What three runs of four do not reach. Whatever disturbs a run, a kernel that looks for pages above all, only slows
/// it.
fn upper_quartile(runs: &[Measured]) -> f64 {
    let mut rates: Vec<f64> = runs.iter().map(|run| run.bytes_per_second).collect();
    rates.sort_by(f64::total_cmp);
    rates[rates.len() * 3 / 4]
}

/// Installs the library and compiles the C program against it.
fn build(folder: &Path) -> Outcome<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let prefix = folder.join("prefix");
    let installed = Command::new(root.join("tools/install-c")).arg("--prefix").arg(&prefix).status()?;
    if !installed.success() {
        return Err("tools/install-c failed".into());
    }
    let program = folder.join("capi");
    let mut compiler = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()));
    compiler.args(["-std=gnu11", "-O2"]).arg(root.join("benches/capi.c")).arg("-o").arg(&program);
    compiler.arg("-I").arg(prefix.join("include")).arg("-L").arg(prefix.join("lib")).arg("-lshardwright");
    compiler.arg(format!("-Wl,-rpath,{}", prefix.join("lib").display()));
    if !compiler.status()?.success() {
        return Err("the C program does not compile".into());
    }
    Ok(program)
}

/// Both sides get a process of their own, or else the one that lives on would find its memory faulted in and its heap
/// grown.
fn run(program: &mut Command, frames: &Path, output: &Path, case: &Case) -> Outcome<Measured> {
    let (_, side, count, ring_bytes, _, compressor, deep) = case;
    program.arg(frames).arg(output);
    program.args([side.to_string(), count.to_string(), ring_bytes.to_string()]);
    program.args([compressor.to_string(), deep.to_string()]);
    let output = program.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let printed: Value = serde_json::from_slice(&output.stdout)?;
    let number = |name: &str| printed[name].as_f64().ok_or("the program printed something else");
    Ok(Measured { bytes_per_second: number("bytes_per_second")?, p50_ns: number("p50_ns")?, p99_ns: number("p99_ns")? })
}

/// A storage that keeps nothing.
#[derive(Debug)]
struct Nowhere;

impl Storage for Nowhere {
    fn name(&self) -> &'static str {
        "nowhere"
    }
    fn create(&self, _: &str, _: u64) -> io::Result<Box<dyn Blob>> {
        Ok(Box::new(Nowhere))
    }
    fn put(&self, _: &str, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
    fn remove(&self, _: &str) -> io::Result<()> {
        Ok(())
    }
}

impl Blob for Nowhere {
    fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
    fn done_with(&self, _: u64, _: u64) {}
    fn publish(&self) -> io::Result<()> {
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn punch(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn truncate(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
}

/// What `benches/capi.c` does, with the same arguments.
fn through_rust(words: &[String]) -> Outcome<()> {
    let [frames, output, numbers @ ..] = words else { return Err("frames and output are missing".into()) };
    let numbers: Vec<usize> = numbers.iter().map(|word| word.parse()).collect::<Result<_, _>>()?;
    let [side, count, ring_bytes, compressor, deep] = numbers[..] else {
        return Err("five numbers are missing".into());
    };
    let compressor = CASES.iter().find(|case| case.5 as usize == compressor).ok_or("no case has this compressor")?.4;
    let bytes = side * side * 2;
    let pixels = std::fs::read(frames)?;
    let mut times = vec![0; count];
    let dims = vec![Dim::time(None).chunk(deep as u64).shard(64), Dim::y(side as u64), Dim::x(side as u64)];
    let config = Config { dims, codec: Codec::from(compressor), ring_bytes, overwrite: true, ..Config::default() };
    let acquisition = match output.as_str() {
        "-" => Acquisition::create_in(Arc::new(Nowhere), config)?,
        path => Acquisition::create(path, config)?,
    };
    let start = Instant::now();
    for (number, time) in times.iter_mut().enumerate() {
        let before = Instant::now();
        let mut frame = acquisition.acquire()?;
        let acquired = before.elapsed();
        frame.copy_from_slice(&pixels[number % 8 * bytes..][..bytes]);
        let filled = Instant::now();
        frame.commit(number as u64, Record::default())?;
        *time = (acquired + filled.elapsed()).as_nanos();
    }
    acquisition.finish()?;
    let seconds = start.elapsed().as_secs_f64();
    times.sort_unstable();
    let rate = (count * bytes) as f64 / seconds;
    println!(
        "{{\"bytes_per_second\": {rate}, \"p50_ns\": {}, \"p99_ns\": {}}}",
        times[count / 2],
        times[count * 99 / 100]
    );
    Ok(())
}
