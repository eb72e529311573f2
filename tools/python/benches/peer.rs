//! The loop of `bench.py` in Rust: `peer PATH EDGE FRAMES` appends frames one by one.

use shardwright::{Acquisition, Codec, Compressor, Config, Dim};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("peer PATH EDGE FRAMES");
    let (path, edge, frames): (String, u64, u64) = (next()?, next()?.parse()?, next()?.parse()?);
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
        overwrite: true,
        ..Config::default()
    };
    let acquisition = Acquisition::create(path, config)?;
    for number in 0..frames as usize {
        let taken = acquisition.append(&stack[number % 64 * bytes..][..bytes])?;
        assert_eq!(taken.frames, 1);
    }
    acquisition.finish()?;
    Ok(())
}
