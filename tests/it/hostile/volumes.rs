//! Volumes whose documents and indexes were made to harm.

use super::*;
use shardwright::{Dialect, Dim, Volume, VolumeHash};

const SHARD: &str = "8/0.shard";

fn volume(gzip_indexes: bool, hash: VolumeHash) -> Good {
    let bits = |bits| Some(bits);
    let volume = Volume {
        key: Some("8".into()),
        hash,
        preshift_bits: bits(1),
        minishard_bits: bits(2),
        shard_bits: bits(1),
        gzip_indexes,
        ..Volume::default()
    };
    let dims = vec![Dim::time(4).chunk(1), Dim::y(8).chunk(4), Dim::x(8).chunk(4)];
    let codec = Codec { compressor: Compressor::None, checksum: false };
    made(&Config { dialect: Dialect::Precomputed, codec, volume, dims, ..config() })
}

fn with_shard(change: impl FnOnce(&mut Vec<u8>)) -> impl FnOnce(&Path) {
    move |path| {
        let mut shard = fs::read(path.join(SHARD)).unwrap();
        change(&mut shard);
        fs::write(path.join(SHARD), shard).unwrap();
    }
}

/// The head's word `at`, which is an offset from the head's end.
fn with_head(at: usize, word: u64) -> impl FnOnce(&Path) {
    with_shard(move |shard| shard[8 * at..][..8].copy_from_slice(&word.to_le_bytes()))
}

fn scale(change: impl FnOnce(&mut Value)) -> impl FnOnce(&Path) {
    edit("info", |info| change(&mut info["scales"][0]))
}

#[test]
fn heads_and_indexes_that_lead_astray() {
    let good = volume(false, VolumeHash::Identity);
    expect(&good, |_| (), &["read: fine\nrecover: 16 chunks, 0 dropped, 0 torn"]);
    let all = "recover: 16 chunks, 0 dropped, 0 torn";
    for (at, word) in [(0, u64::MAX), (1, u64::MAX), (1, 1 << 40), (0, u64::MAX - 63), (1, 0)] {
        expect(&good, with_head(at, word), &["verify: 8/0.shard: the index of minishard 0: stands from", all]);
    }
    // Half an entry, and bytes that are none.
    expect(&good, with_head(1, 25), &["the index of minishard 0", "recover: 8/0.shard: NewIndex", all]);
    expect(&good, with_shard(|shard| shard.truncate(63)), &["63 bytes are too few for a shard's head of 64 bytes"]);
    expect(&good, with_shard(|shard| shard.truncate(64)), &["verify: ", "stands from"]);
    expect(&good, with_shard(|shard| shard.clear()), &["0 bytes are too few", "Remove None"]);
    // The last index entries: offsets wrap round, sizes reach out of the file, a chunk is somebody else's.
    let last = |word: usize, value: u64| {
        with_shard(move |shard| {
            let at = shard.len() - 8 * word;
            shard[at..][..8].copy_from_slice(&value.to_le_bytes());
        })
    };
    expect(&good, last(1, u64::MAX - 7), &["but the shard's chunks lie between 64 and", all]);
    expect(&good, last(1, 1 << 50), &["the index names 1125899906842624 bytes", all]);
    // Offsets count from each other, so the next one is wrong, too.
    let words = ["but the shard's chunks lie between 64 and", "recover: 16 chunks, 1 dropped, 0 torn"];
    expect(&good, last(4, u64::MAX), &words);
    expect(&good, last(6, 1 << 60), &["verify: ", "minishard 3 names chunk", all]);
    expect(&good, last(5, 0), &["names chunk 6 twice", all]);
}

#[test]
fn indexes_that_claim_to_be_larger() {
    let good = volume(true, VolumeHash::Identity);
    expect(&good, |_| (), &["read: fine\nrecover: 16 chunks"]);
    // The last four bytes of a gzip stream are its length.
    let claims = with_shard(|shard| {
        let at = shard.len() - 4;
        shard[at..].copy_from_slice(&u32::MAX.to_le_bytes());
    });
    let most = "claims to become 4294967295 bytes; at most 48 are possible";
    expect(&good, claims, &[most, "recover: 16 chunks, 0 dropped, 0 torn"]);
}

#[test]
fn documents_that_can_not_be() {
    let good = volume(false, VolumeHash::Identity);
    let bits = |name: &'static str, bits: u64| scale(move |scale| scale["sharding"][name] = json!(bits));
    for (name, count) in [
        ("minishard_bits", 25),
        ("minishard_bits", 64),
        ("preshift_bits", 65),
        ("shard_bits", u64::from(u32::MAX)),
        ("shard_bits", 63),
    ] {
        expect(&good, bits(name, count), &["open: ", "bits can't be", "verify: "]);
    }
    expect(&good, bits("minishard_bits", 24), &["too few for a shard's head of 268435456 bytes", "nothing is changed"]);
    expect(&good, bits("preshift_bits", u64::MAX), &["open: "]);
    let big = u64::MAX;
    expect(&good, scale(|scale| scale["size"] = json!([big, big, big])), &["open: "]);
    expect(&good, scale(|scale| scale["chunk_sizes"] = json!([[1u64 << 40, 1u64 << 40, 1]])), &["open: "]);
    expect(&good, scale(|scale| scale["chunk_sizes"] = json!([[0, 4, 1]])), &["open: ", "can't be"]);
    expect(&good, scale(|scale| scale["chunk_sizes"] = json!([])), &["open: ", "has no chunk_sizes"]);
    expect(&good, scale(|scale| scale["key"] = json!("../../etc")), &["open: ", "that is not below it"]);
    expect(&good, edit("info", |info| info["num_channels"] = json!(0)), &["open: ", "0 channels"]);
    expect(&good, edit("info", |info| info["num_channels"] = json!(3)), &["open: ", "which a volume can't have"]);
    expect(&good, edit("info", |info| info["scales"] = json!([])), &["has no scales"]);
    for dimensions in [json!(["x"]), json!(7), json!(["a", "b", "c", "y", "x"]), json!(["y", "x"])] {
        let words = ["open: ", "dimensions are"];
        expect(&good, edit("info", |info| info["shardwright"]["dimensions"] = dimensions), &words);
    }
}

/// The numbers that headers give to chunks are the ranks of ids, of which a document may promise any number.
#[test]
fn ranks_of_too_many_ids() {
    let good = volume(false, VolumeHash::Murmurhash3X86_128);
    expect(&good, |_| (), &["read: fine\nrecover: 16 chunks"]);
    expect(&good, scale(|scale| scale["size"] = json!([1 << 20, 1 << 20, 4])), &["recover: ", "as no writer does"]);
    let bits = scale(|scale| scale["sharding"]["shard_bits"] = json!(61));
    expect(&good, bits, &["verify: ", "recover: "]);
}
