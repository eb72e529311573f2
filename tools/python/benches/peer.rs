//! The loops of `bench.py` in Rust: `peer PATH EDGE FRAMES append|loans`. Prints the seconds from the creation to the
//! finished dataset, and the most memory that was resident, as JSON.

use std::time::Instant;

use shardwright::{Acquisition, Codec, Compressor, Config, Dim, Record};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("peer PATH EDGE FRAMES append|loans");
    let (path, edge, frames, how): (_, u64, usize, _) = (next()?, next()?.parse()?, next()?.parse()?, next()?);
    let bytes = (edge * edge * 2) as usize;
    // As noisy as those of the other loop, which draws them from 12 bits.
    let mut state = 1_u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 52) as u16
    };
    let stack: Vec<u8> = (0..32 * bytes).flat_map(|_| noise().to_le_bytes()).collect();
    let config = Config {
        dims: vec![Dim::time(None), Dim::y(edge), Dim::x(edge)],
        codec: Codec::from(Compressor::None),
        ring_bytes: 1 << 30,
        overwrite: true,
        ..Config::default()
    };
    let start = Instant::now();
    let acquisition = Acquisition::create(path, config)?;
    for number in 0..frames {
        let image = &stack[number % 64 * bytes..][..bytes];
        match how.as_str() {
            "append" => assert_eq!(acquisition.append(image)?.frames, 1),
            "loans" => {
                let mut frame = acquisition.acquire()?;
                frame.copy_from_slice(image);
                frame.commit_next(Record::default())?;
            }
            _ => return Err("the loops are append and loans".into()),
        }
    }
    acquisition.finish()?;
    let seconds = start.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    let kib: u64 = peak.trim().trim_end_matches(" kB").parse()?;
    println!("{{\"seconds\": {seconds}, \"resident\": {}}}", kib << 10);
    Ok(())
}
