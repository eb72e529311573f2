//! Datasets that somebody, or something, made to harm their reader. Each gives its error, and soon; none is ever
//! believed.
//!
//! What a fuzzer finds comes here as another case.

mod volumes;

use crate::common::{checked, recovered};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::sync::OnceLock;

use crate::common::stopped::{files, finished, restore, small};
use serde_json::{Value, json};
use shardwright::offline::{Array, describe};
use shardwright::{Codec, Compressor, Config, IndexLocation, Placement, StorageKind};

const SHARD: &str = "0/c/0/0/0";
/// Of sixteen chunks.
const INDEX_BYTES: usize = 260;
const SLOT_BYTES: usize = 88;

type Good = std::collections::BTreeMap<std::path::PathBuf, Vec<u8>>;

fn config() -> Config {
    small((Placement::Fixed, IndexLocation::End, StorageKind::Buffered))
}

/// Four frames in one shard of sixteen chunks, uncompressed, with checksums.
fn good() -> &'static Good {
    static GOOD: OnceLock<Good> = OnceLock::new();
    GOOD.get_or_init(|| made(&config()))
}

fn made(config: &Config) -> Good {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    finished(&path, config, &[0, 1, 2, 3]);
    files(&path)
}

/// What everybody who reads a dataset says about it, one after the other; a panic or an endless loop fails the test.
fn said(path: &Path) -> String {
    let mut said = Vec::new();
    let mut say = |who: &str, text: String| said.push(format!("{who}: {text}"));
    match Array::open(path) {
        Err(error) => say("open", error.to_string()),
        Ok(array) => {
            let frame = array.shape().iter().map(|&length| length.min(8)).collect::<Vec<_>>();
            let bytes = frame.iter().product::<u64>() as usize * array.dtype().size();
            let read = array.read_region(&vec![0; frame.len()], &frame, &mut vec![0; bytes]);
            say("read", read.map_or_else(|error| error.to_string(), |()| "fine".into()));
        }
    }
    match describe(path) {
        Err(error) => say("describe", error.to_string()),
        Ok(description) => {
            let damaged = description.arrays.iter().flat_map(|array| &array.damaged);
            let unread = description.unreadable.iter().map(|array| &array.reason);
            damaged.chain(unread).for_each(|what| say("describe", what.clone()));
        }
    }
    match checked(path) {
        Err(error) => say("verify", error.to_string()),
        Ok(verification) => verification.findings.iter().for_each(|finding| say("verify", finding.to_string())),
    }
    // With `apply`, so that writing is tried, too.
    match recovered(path, true) {
        Err(error) => say("recover", error.to_string()),
        Ok(recovery) => {
            for shard in recovery.images.iter().flat_map(|image| &image.shards) {
                say("recover", format!("{}: {:?} {:?}", shard.path, shard.action, shard.reason));
            }
            for image in &recovery.images {
                say(
                    "recover",
                    format!("{} chunks, {} dropped, {} torn", image.chunks, image.chunks_dropped, image.chunks_torn),
                );
            }
        }
    }
    said.join("\n")
}

/// Makes a dataset, lets `harm` change it, and expects all `words` in what is said about it.
#[track_caller]
fn expect(good: &Good, harm: impl FnOnce(&Path), words: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    restore(&path, good);
    harm(&path);
    let said = said(&path);
    words.iter().for_each(|words| assert!(said.contains(words), "nobody says {words:?}:\n{said}"));
}

fn edit(document: &'static str, change: impl FnOnce(&mut Value)) -> impl FnOnce(&Path) {
    move |path| {
        let path = path.join(document);
        let mut value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        change(&mut value);
        fs::write(path, serde_json::to_vec(&value).unwrap()).unwrap();
    }
}

fn with_shard(change: impl FnOnce(&mut Vec<u8>)) -> impl FnOnce(&Path) {
    move |path| {
        let mut shard = fs::read(path.join(SHARD)).unwrap();
        change(&mut shard);
        fs::write(path.join(SHARD), shard).unwrap();
    }
}

/// An index with one entry changed and its checksum right.
fn with_entry(chunk: usize, offset: u64, nbytes: u64) -> impl FnOnce(&Path) {
    with_shard(move |shard| {
        let at = shard.len() - INDEX_BYTES;
        shard[at + 16 * chunk..][..8].copy_from_slice(&offset.to_le_bytes());
        shard[at + 16 * chunk + 8..][..8].copy_from_slice(&nbytes.to_le_bytes());
        seal(&mut shard[at..]);
    })
}

/// Puts the checksum of all before into the last four bytes.
fn seal(bytes: &mut [u8]) {
    let (data, crc) = bytes.split_last_chunk_mut::<4>().unwrap();
    *crc = crc32c::crc32c(data).to_le_bytes();
}

/// A slot header with one field changed and its checksum right.
fn with_header(slot: usize, at: usize, bytes: &'static [u8]) -> impl FnOnce(&Path) {
    with_shard(move |shard| {
        let header = &mut shard[SLOT_BYTES * slot..][..64];
        header[at..][..bytes.len()].copy_from_slice(bytes);
        seal(header);
    })
}

/// A change to a document, and what is said about it.
type Case = (fn(&mut Value), &'static str);

fn sharding(document: &mut Value) -> &mut Value {
    &mut document["codecs"][0]["configuration"]
}

#[test]
fn nothing_is_said_about_a_good_one() {
    expect(good(), |_| (), &["read: fine\nrecover: 16 chunks, 0 dropped, 0 torn"]);
}

#[test]
fn index_entries_that_lead_astray() {
    let outside = "but the shard's chunks lie between 0 and 1404";
    expect(good(), with_entry(3, u64::MAX - 8, 20), &["read: ", outside, "recover: 0/c/0/0/0: NewIndex"]);
    expect(good(), with_entry(3, 8, u64::MAX - 8), &[outside, "verify: 0/c/0/0/0, chunk 3"]);
    expect(good(), with_entry(3, u64::MAX, 20), &[outside]);
    expect(good(), with_entry(3, 20, u64::MAX), &[outside]);
    expect(good(), with_entry(3, 1400, 20), &[outside]);
    expect(
        good(),
        with_entry(3, 64, 20),
        &["starts at byte 64, within chunk 0, which ends at 84", "chunk 3: the index names"],
    );
    expect(good(), with_entry(3, 328, 0), &["0 bytes are too few for a checksum"]);
    expect(good(), with_entry(3, 328, 3), &["3 bytes are too few for a checksum"]);
}

#[test]
fn shards_that_are_none() {
    expect(
        good(),
        with_shard(|shard| shard.clear()),
        &["0 bytes are too few for a shard's index of 260 bytes", "Remove None"],
    );
    expect(good(), with_shard(|shard| shard.truncate(259)), &["too few for a shard's index"]);
    expect(
        good(),
        with_shard(|shard| shard.truncate(1000)),
        &["the index is damaged", "recover: 11 chunks, 0 dropped, 0 torn"],
    );
    let directory = |path: &Path| {
        fs::remove_file(path.join(SHARD)).unwrap();
        fs::create_dir(path.join(SHARD)).unwrap();
    };
    expect(good(), directory, &["is not a regular file", "holds 0 chunks, and its writer counted 16"]);
    let pipe = |path: &Path| {
        fs::remove_file(path.join(SHARD)).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path.join(SHARD), rustix::fs::Mode::RWXU).unwrap();
    };
    expect(good(), pipe, &["read: ", "verify: 0/c/0/0/0: is not a regular file", "/0/c/0/0/0: is not a regular file"]);
}

#[test]
fn sparse_shards_ask_for_no_memory_and_little_time() {
    let sparse = |nbytes: u64| {
        move |path: &Path| {
            let file = File::options().write(true).read(true).open(path.join(SHARD)).unwrap();
            let len = 1 << 42;
            let mut index = vec![0xff; INDEX_BYTES];
            index[..8].copy_from_slice(&4096u64.to_le_bytes());
            index[8..16].copy_from_slice(&nbytes.to_le_bytes());
            seal(&mut index);
            file.set_len(len).unwrap();
            file.write_all_at(&index, len - INDEX_BYTES as u64).unwrap();
        }
    };
    expect(good(), sparse(1 << 41), &["read: ", "2199023255552 encoded bytes for a chunk of 16 bytes"]);
    // Packed ones are searched through, but not for ever.
    let packed = made(&small((Placement::Packed, IndexLocation::End, StorageKind::Buffered)));
    expect(&packed, sparse(1 << 41), &["2199023255552 encoded bytes for a chunk of 16 bytes", "16 chunks, 1 dropped"]);
}

#[test]
fn headers_that_lie() {
    // Of a whole chunk, they say that the documents are wrong.
    let (dropped, refused) = ("recover: 15 chunks, 1 dropped", "put that back; nothing is changed");
    let lies: [(usize, &'static [u8], [&str; 2]); 7] = [
        (12, &[9, 0, 0, 0], ["it names chunk 9, whose slot is elsewhere", refused]),
        (12, &[0xff; 4], ["it names chunk 4294967295 of 16", refused]),
        (16, &[0xff; 8], ["it names 18446744073709551615 bytes where 24 are possible", dropped]),
        (24, &[0; 16], ["it belongs to another dataset", dropped]),
        (40, &[7, 0, 0, 0, 0, 0, 0, 0], ["it belongs to the shard c/7/0/0", refused]),
        (48, &[0xff; 8], ["it names frames 18446744073709551615 to 18446744073709551615", refused]),
        (56, &[0xff; 4], ["it names frames 0 to 4294967295", refused]),
    ];
    for (at, bytes, words) in lies {
        expect(good(), with_header(2, at, bytes), &words);
    }
    expect(
        good(),
        with_header(2, 8, &[1, 2, 3, 4]),
        &["not those that its slot header was written for", "15 chunks, 1 dropped, 1 torn"],
    );
    expect(good(), with_header(2, 16, &[21, 0]), &["21 bytes of chunk 2", "15 chunks, 1 dropped, 1 torn"]);
    expect(good(), with_header(2, 4, &[2]), &["its version is unknown", "15 chunks, 1 dropped"]);
}

#[test]
fn headers_that_would_be_read_for_ever() {
    let layout = (Placement::Packed, IndexLocation::End, StorageKind::Buffered);
    let packed = made(&small(layout));
    let swarm = with_shard(|shard| {
        let index = shard.split_off(shard.len() - INDEX_BYTES);
        let mut header = shard[..64].to_vec();
        // Each promises a chunk of a mebibyte.
        header[16..24].copy_from_slice(&(1u64 << 20).to_le_bytes());
        seal(&mut header);
        shard.resize(shard.len().next_multiple_of(8), 0);
        for _ in 0..40_000 {
            shard.extend(&header);
        }
        shard.extend(index);
    });
    let slots = edit("zarr.json", |document| document["attributes"]["shardwright"]["slots"]["bytes"] = json!(2 << 20));
    let swarm = |path: &Path| {
        slots(path);
        swarm(path);
    };
    expect(&packed, swarm, &["too many headers are followed by something else than their chunks", "0/c/0/0/0: Leave"]);
}

#[test]
fn documents_that_can_not_be() {
    let cases: [Case; 12] = [
        (|d| d["shape"] = json!([u64::MAX, u64::MAX, u64::MAX]), "has more than 2^64 elements"),
        (|d| d["shape"] = json!(vec![1; 40]), "40 dimensions; at most 32 are read"),
        (|d| d["shape"] = json!([-1, 8, 8]), "expected a list of sizes"),
        (|d| sharding(d)["chunk_shape"] = json!([0, 4, 4]), "expected 3 numbers above 0"),
        (|d| sharding(d)["chunk_shape"] = json!([3, 4, 4]), "don't divide shards"),
        (|d| sharding(d)["chunk_shape"] = json!([1, 4]), "expected 3 numbers above 0"),
        (|d| sharding(d)["chunk_shape"] = json!([1u64 << 63, 1u64 << 63, 4]), "don't divide"),
        (
            |d| {
                d["chunk_grid"]["configuration"]["chunk_shape"] = json!([1u64 << 40, 1u64 << 40, 1u64 << 40]);
                sharding(d)["chunk_shape"] = json!([1, 4, 4]);
            },
            "hold too many",
        ),
        (
            |d| {
                d["chunk_grid"]["configuration"]["chunk_shape"] = json!([1u64 << 20, 1u64 << 20, 8]);
                sharding(d)["chunk_shape"] = json!([1u64 << 20, 1u64 << 20, 8]);
            },
            "are over 4294967296 bytes",
        ),
        (|d| sharding(d)["index_codecs"] = json!([{"name": "gzip"}]), "index_codecs"),
        (|d| sharding(d)["codecs"] = json!([sharding(&mut d.clone()).clone()]), "codec"),
        (|d| d["data_type"] = json!("string"), "data_type \"string\" is not read here"),
    ];
    for (change, words) in cases {
        expect(
            good(),
            edit("0/zarr.json", change),
            &["open: ", "describe: ", "verify: 0/zarr.json", "recover: ", words],
        );
    }
    for closed in ["", "]"] {
        let deep = format!("{}{}", "[".repeat(100_000), closed.repeat(100_000));
        let words = &["lists or objects more than 127 deep"];
        expect(good(), |path| fs::write(path.join("0/zarr.json"), deep).unwrap(), words);
    }
    // It is not read before it is refused.
    let long = |path: &Path| File::create(path.join("0/zarr.json")).unwrap().set_len(1 << 40).unwrap();
    expect(good(), long, &["has 1099511627776 bytes, and documents of more than 16777216 bytes are not read here"]);
    let pipe = |path: &Path| {
        fs::remove_file(path.join("0/zarr.json")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path.join("0/zarr.json"), rustix::fs::Mode::RWXU).unwrap();
    };
    expect(good(), pipe, &["0/zarr.json: is not a regular file"]);
}

#[test]
fn attributes_that_can_not_be() {
    let own =
        |change: fn(&mut Value)| edit("zarr.json", move |document| change(&mut document["attributes"]["shardwright"]));
    let cases: [Case; 9] = [
        (|own| own["writer"] = json!("+0000000000000000000000000000000"), "is no UUID"),
        (|own| own["writer"] = json!(7), "invalid type"),
        (|own| own["acquisition_order"] = json!(["t", "t"]), "frames were acquired in the order"),
        (|own| own["acquisition_order"] = json!([]), "frames were acquired in the order"),
        (|own| own["frames"] = json!(u64::MAX), "more than a writer can number"),
        (|own| own["missing"] = json!([[5, 5]]), "expected ranges that go up"),
        (|own| own["missing"] = json!([[5, u64::MAX]]), "more than a writer can number"),
        (|own| own["slots"]["bytes"] = json!(0), "can't be: both are multiples of 8"),
        (|own| own["slots"]["first_at"] = json!(u64::MAX - 7), "can't be: both are multiples of 8"),
    ];
    for (change, words) in cases {
        expect(good(), own(change), &["read: fine", "recover: ", "verify: ", words]);
    }
    // Slots elsewhere: no header is where it should be, and so nothing is touched.
    expect(good(), own(|own| own["slots"]["bytes"] = json!(96)), &["whose slot is elsewhere"]);
    expect(good(), own(|own| own["slots"]["bytes"] = json!(1u64 << 39)), &["recover: "]);
    let many = edit("zarr.json", |document| {
        let own = &mut document["attributes"]["shardwright"];
        own["complete"] = json!(false);
        own["frames"] = json!(1u64 << 56);
    });
    expect(good(), many, &["recover: "]);
    let out = edit("zarr.json", |document| {
        document["attributes"]["ome"]["multiscales"][0]["datasets"][0]["path"] = json!("../../etc");
    });
    expect(
        good(),
        out,
        &["open: ", "names a dataset \"../../etc\" that is not below it", "verify: .: its attributes name"],
    );
}

#[test]
fn records_that_can_not_be() {
    let path = "records/frame_number/zarr.json";
    expect(
        good(),
        edit(path, |document| document["data_type"] = json!("float64")),
        &["recover: ", "is not a list of frame numbers"],
    );
    expect(good(), edit(path, |document| document["shape"] = json!([4, 4])), &["expected 2 numbers above 0"]);
    let short = |path: &Path| fs::write(path.join("records/frame_number/c/0"), [0; 9]).unwrap();
    expect(
        good(),
        short,
        &["verify: records/frame_number/c/0: 9 bytes are too few for a shard's index of 65536 bytes"],
    );
}

#[test]
fn trees_without_an_end() {
    let looped = |path: &Path| symlink("..", path.join("records/again")).unwrap();
    expect(good(), looped, &["read: fine", "recover: 16 chunks"]);
    let looped = |path: &Path| symlink(".", path.join("0/c/1")).unwrap();
    expect(good(), looped, &["read: fine", "recover: 16 chunks"]);
    let deep = |path: &Path| {
        let mut at = path.join("records");
        for _ in 0..40 {
            at = at.join("g");
            fs::create_dir(&at).unwrap();
            fs::write(at.join("zarr.json"), r#"{"zarr_format": 3, "node_type": "group"}"#).unwrap();
        }
    };
    expect(good(), deep, &["the tree is deeper than 32"]);
    let lock = |path: &Path| {
        rustix::fs::mkfifoat(rustix::fs::CWD, path.join(".shardwright.lock"), rustix::fs::Mode::RWXU).unwrap();
    };
    expect(good(), lock, &["verify: ", "recover: ", ".shardwright.lock: is not a regular file"]);
}

/// Chunks that claim to become much more than a chunk is.
#[test]
fn bombs() {
    let zstd = {
        // A frame of one run-length block: 128 KiB of zeros, a thousand times.
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
        frame.extend((128u32 << 20).to_le_bytes());
        for block in 0..1024u32 {
            let header = (128 << 10) << 3 | 1 << 1 | u32::from(block == 1023);
            frame.extend(&header.to_le_bytes()[..3]);
            frame.push(0);
        }
        frame
    };
    let blosc = {
        // c-blosc's header: a gibibyte from one byte.
        let mut frame = vec![2, 1, 0x10, 1];
        [1u32 << 30, 1 << 30, 40].iter().for_each(|number| frame.extend(number.to_le_bytes()));
        frame.resize(40, 1);
        frame
    };
    let gzip =
        [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff][..], &[0xed, 0xc1, 1, 1, 0, 0, 0, 0x80, 0x90, 0xfe, 0xaf, 0xee]]
            .concat();
    for (compressor, bomb) in [
        (Compressor::Zstd { level: 1 }, zstd),
        (Compressor::default(), blosc),
        (Compressor::Gzip { level: 1 }, gzip),
        (Compressor::Lz4, [&(1u32 << 30).to_le_bytes()[..], &[0x1f; 60]].concat()),
    ] {
        let name = format!("{compressor:?}");
        let good = made(&Config { codec: Codec { compressor, checksum: false }, ..config() });
        let with_bomb = with_shard(|shard| {
            let index = shard.split_off(shard.len() - INDEX_BYTES);
            let at = shard.len() as u64;
            let nbytes = bomb.len() as u64;
            shard.extend(&bomb);
            shard.extend(index);
            let index = shard.len() - INDEX_BYTES;
            shard[index..][..8].copy_from_slice(&at.to_le_bytes());
            shard[index + 8..][..8].copy_from_slice(&nbytes.to_le_bytes());
            seal(&mut shard[index..]);
        });
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.zarr");
        restore(&path, &good);
        with_bomb(&path);
        let said = said(&path);
        assert!(said.starts_with("read: ") && said.contains("chunk [0, 0, 0]"), "{name}: {said}");
        assert!(said.contains("verify: 0/c/0/0/0, chunk 0: "), "{name}: {said}");
        assert!(said.contains("recover: 16 chunks, 1 dropped, 0 torn"), "{name}: {said}");
    }
}

/// Documents of the draft of 2022 that can't be, and trees of them without an end.
#[test]
fn drafts() {
    let codec = Codec { compressor: Compressor::None, checksum: false };
    let good = made(&Config { dialect: shardwright::Dialect::Zarr3Transformer, codec, ..config() });
    expect(&good, |_| (), &["read: fine\nrecover: 16 chunks, 0 dropped, 0 torn"]);
    let array = "meta/root/0.array.json";
    let big = u64::MAX;
    let cases: [Case; 8] = [
        (|array| array["chunk_grid"]["chunk_shape"] = json!([1, 0, 4]), "numbers above 0"),
        (|array| array["chunk_grid"]["type"] = json!("odd"), "expected a regular one"),
        (|array| array["chunk_memory_layout"] = json!("K"), "the order of elements is \"K\""),
        (|array| array["data_type"] = json!("<M8[s]"), "is not read here"),
        (|array| array["extensions"] = json!([{"extension": "x"}]), "is not read here"),
        (|array| array["compressor"] = json!({"codec": "https://x/lzma"}), "is not read here"),
        (|array| array["storage_transformers"][0]["type"] = json!("other"), "of type indexed is"),
        (
            |array| array["storage_transformers"][0]["configuration"]["chunks_per_shard"] = json!([1, 2]),
            "chunks_per_shard",
        ),
    ];
    for (change, words) in cases {
        expect(&good, edit(array, change), &["open: ", "verify: ", words]);
    }
    let per_shard = move |array: &mut Value| {
        array["storage_transformers"][0]["configuration"]["chunks_per_shard"] = json!([big, big, 1]);
    };
    expect(&good, edit(array, per_shard), &["open: ", "2^64"]);
    expect(
        &good,
        edit("zarr.json", |entry| entry["metadata_key_suffix"] = json!("")),
        &["open: ", "metadata_key_suffix"],
    );
    let looped = |path: &Path| symlink("..", path.join("meta/root/again")).unwrap();
    expect(&good, looped, &["read: fine", "recover: 16 chunks"]);
    let looped = |path: &Path| symlink("..", path.join("data/root/again")).unwrap();
    expect(&good, looped, &["read: fine", "recover: 16 chunks"]);
    let deep = |path: &Path| fs::create_dir_all(path.join("meta/root").join("g/".repeat(40))).unwrap();
    expect(&good, deep, &["the tree is deeper than 32"]);
}
