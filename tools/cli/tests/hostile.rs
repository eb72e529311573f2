//! Folders that somebody sent to do harm, through every command: nothing outside of them is changed, created, removed,
//! read or shown, and none costs much time or memory.
//!
//! `SHARDWRIGHT_HOSTILE_TREES` says how many, `SHARDWRIGHT_HOSTILE_FIRST` from which on; `SHARDWRIGHT_HOSTILE_SEEDS`,
//! as in `7,1299`, runs some of them alone.

use std::collections::BTreeMap;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

const SECRET: &str = "FIVE-YEARS-OF-WORK";
const SECONDS_MAX: u64 = 10;
/// Address space, of which a part is ever touched.
const MEMORY_KIB: u64 = 512 << 10;

struct Random(u64);

impl Random {
    /// The generator of a seed: splitmix64, so that neighbours have nothing in common.
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5DEE_CE66_D1CE_4E5B)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

fn shardwright(words: &[&str], folder: &Path) -> std::process::Output {
    let output = Command::new(env!("CARGO_BIN_EXE_shardwright")).args(words).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Valid datasets of all kinds, small.
fn datasets(folder: &Path) -> Vec<PathBuf> {
    let make = |name: &str, words: &[&str]| {
        let camera =
            ["replay", "synthetic", name, "--camera", "24x16xu16", "--frames", "9", "--memory", "1MiB", "--quiet"];
        shardwright(&[&camera[..], words].concat(), folder);
        folder.join(name)
    };
    let mut made = vec![
        make("fixed", &["--chunk", "2,8,8", "--shard", "4,16,24", "--placement", "fixed", "--codec", "none"]),
        make("packed", &["--chunk", "2,16,24", "--shard", "4,16,24", "--codec", "blosc-zstd"]),
        make("draft", &["--chunk", "1,8,24", "--shard", "4,16,24", "--dialect", "zarr3-transformer"]),
        make("zarr2", &["--chunk", "1,8,24", "--shard", "4,16,24", "--dialect", "zarr2-sharded"]),
        make("volume", &["--chunk", "2,8,8", "--dialect", "precomputed", "--codec", "gzip"]),
    ];
    shardwright(&["manifest", "packed", "listed"], folder);
    made.push(folder.join("listed"));
    made
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

/// Everything below a folder but `skip`: kind, size, mode, time and bytes.
fn state(folder: &Path, skip: &[PathBuf]) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if skip.contains(&path) {
            continue;
        }
        let metadata = fs::symlink_metadata(&path).unwrap();
        if metadata.is_dir() {
            found.extend(state(&path, skip));
            found.insert(path, format!("folder {:o}", metadata.mode()));
        } else {
            // A pipe would be waited for.
            let bytes = if metadata.is_file() { fs::read(&path).unwrap_or_default() } else { Vec::new() };
            let (time, nanoseconds) = (metadata.mtime(), metadata.mtime_nsec());
            found.insert(
                path,
                format!("{:o} {time}.{nanoseconds} {}", metadata.mode(), String::from_utf8_lossy(&bytes)),
            );
        }
    }
    found
}

/// The files below a folder that are neither links nor pipes.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files(&entry.path())),
            Ok(kind) if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found.sort();
    found
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_path_buf()];
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(folders(&entry.path()));
        }
    }
    found.sort();
    found
}

/// What a link may lead to: outside, to nothing, in a circle.
fn target(random: &mut Random, outside: &Path) -> PathBuf {
    let targets = [
        outside.join("secret.txt"),
        outside.join("private"),
        outside.join("private/secret.bin"),
        outside.join("nothing/there"),
        PathBuf::from("."),
        PathBuf::from("../outside/secret.txt"),
        PathBuf::from("../../../../../../../../etc"),
        PathBuf::from("/dev/zero"),
    ];
    random.one(&targets).clone()
}

fn remove(path: &Path) {
    let is_folder = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    let _ = if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

/// A number in a document or an index that promises too much, or nothing.
fn number(random: &mut Random) -> u64 {
    *random.one(&[0, 1, 7, 255, 4096, 1 << 20, 1 << 31, 1 << 32, 1 << 40, (1 << 63) - 1, u64::MAX - 1, u64::MAX])
}

/// Replaces one number of a text, wherever it stands.
fn change_number(random: &mut Random, text: &str) -> String {
    let starts: Vec<_> = text.char_indices().filter(|(_, c)| c.is_ascii_digit()).map(|(at, _)| at).collect();
    if starts.is_empty() {
        return text.to_owned();
    }
    let start = *random.one(&starts);
    let end = text[start..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |length| start + length);
    format!("{}{}{}", &text[..start], number(random), &text[end..])
}

/// Where harm is done.
fn place(random: &mut Random, tree: &Path, file: &Path, folders: &[PathBuf]) -> PathBuf {
    let (around, name) = (tree.parent().unwrap(), tree.file_name().unwrap().to_string_lossy().into_owned());
    let last = file.file_name().unwrap().to_string_lossy().into_owned();
    match random.below(12) {
        0 => around.join(format!(".{name}.repack")),
        1 => around.join(format!(".{name}.partial")),
        2 => around.join(format!(".{name}.replaced")),
        3 => around.join(".out.repack"),
        4 => around.join(".out.partial"),
        5 => file.with_file_name(format!(".{last}.partial")),
        6 => tree.join(".shardwright.lock"),
        7 => tree.join(".shardwright.ballast.partial"),
        8 => around.join(format!(".{name}.repack/tree")),
        9 => around.join(format!(".{name}.repack/journal.json")),
        10 => random.one(folders).join(*random.one(&["c", "0", "5", "zarr.json", "records", "missing"])),
        _ => file.to_path_buf(),
    }
}

/// A journal of a repacking that nobody began.
fn plant_journal(random: &mut Random, around: &Path, name: &str, outside: &Path) -> String {
    let staging = around.join(random.one(&[format!(".{name}.repack"), ".out.repack".to_owned()]));
    let private = outside.join("private").display().to_string();
    let named =
        random.one(&[private, "../../../outside/private".into(), "..".into(), "0".into(), "a\nb".into()]).clone();
    let _ = fs::create_dir_all(staging.join("tree/0"));
    let journal = serde_json::json!({"version": 1, "synced": true, "arrays": {named.clone(): {"source": "/"}}});
    // It may be a pipe by now, which this would wait at.
    remove(&staging.join("journal.json"));
    let _ = fs::write(staging.join("journal.json"), journal.to_string());
    format!("a journal that names {named:?}")
}

/// Other numbers in a document, an index or a header.
fn change_numbers(random: &mut Random, file: &Path) -> String {
    let mut bytes = fs::read(file).unwrap_or_default();
    if let Ok(text) = std::str::from_utf8(&bytes)
        && text.starts_with('{')
    {
        bytes = change_number(random, text).into_bytes();
    } else if bytes.len() >= 8 {
        // An index or a header, as a rule.
        let at = match random.below(2) {
            0 => bytes.len() - 8 - random.below(bytes.len().min(200) - 7),
            _ => random.below(bytes.len() - 7),
        };
        bytes[at..at + 8].copy_from_slice(&number(random).to_le_bytes());
    }
    let _ = fs::write(file, bytes);
    format!("numbers in {}", file.display())
}

/// A manifest that names a file elsewhere, or a file of another length.
fn name_a_secret(random: &mut Random, file: &Path, outside: &Path) -> String {
    let secret = outside.join("secret.txt").display().to_string();
    let text = fs::read_to_string(file).unwrap_or_default();
    let at = text.find("\"path\"").and_then(|at| Some(at + text[at..].find(": ")? + 2));
    if let Some(start) = at {
        let rest = text[start..].find(['\n', ',']).map_or(text.len(), |length| start + length);
        let _ = fs::write(file, format!("{}{}{}", &text[..start], serde_json::json!(secret), &text[rest..]));
    } else {
        let _ = fs::File::options().write(true).open(file).and_then(|file| file.set_len(random.next() % 300));
    }
    format!("a path in, or the length of, {}", file.display())
}

/// One change of the tree, and what it was.
fn harm(random: &mut Random, tree: &Path, outside: &Path) -> String {
    let (around, name) = (tree.parent().unwrap(), tree.file_name().unwrap().to_string_lossy().into_owned());
    let files = files(tree);
    let folders = folders(tree);
    let Some(file) = files.get(random.below(files.len().max(1))) else { return "nothing is left".into() };
    let place = place(random, tree, file, &folders);
    match random.below(9) {
        0..3 => {
            let to = target(random, outside);
            remove(&place);
            let _ = fs::create_dir_all(place.parent().unwrap());
            let _ = symlink(&to, &place);
            format!("{} -> {}", place.display(), to.display())
        }
        3 => {
            let whole = random.one(&folders).clone();
            if whole != tree {
                remove(&whole);
                let _ = symlink(outside.join("private"), &whole);
            }
            format!("folder {} -> private", whole.display())
        }
        4 => plant_journal(random, around, &name, outside),
        5 => change_numbers(random, file),
        6 => name_a_secret(random, file, outside),
        7 => {
            remove(&place);
            let _ = fs::create_dir_all(place.parent().unwrap());
            let made = Command::new("mkfifo").arg(&place).stderr(Stdio::null()).status();
            format!("pipe {}: {made:?}", place.display())
        }
        _ => {
            let long = "n".repeat(255);
            let odd = *random.one(&["a\nb", "\u{1b}[31m", "..zarr", " ", long.as_str(), "-rf", "0.0.0"]);
            let at = random.one(&folders).join(odd);
            let _ = if random.below(2) == 0 { fs::create_dir(&at) } else { fs::rename(file, &at) };
            format!("{:?}", at)
        }
    }
}

/// The words of the commands that a tree goes through.
fn commands(random: &mut Random) -> Vec<Vec<&'static str>> {
    let all: [&[&str]; 19] = [
        &["info", "tree"],
        &["info", "--json", "tree"],
        &["verify", "tree"],
        &["verify", "--json", "tree"],
        &["recover", "tree"],
        &["recover", "--apply", "tree"],
        &["repack", "tree", "--quiet"],
        &["repack", "tree", "out", "--quiet"],
        &["repack", "tree", "out", "--codec", "zstd", "--quiet", "--no-sync"],
        &["repack", "tree", "--codec", "gzip", "--quiet"],
        &["repack", "tree", "out", "--dialect", "precomputed", "--codec", "gzip", "--quiet"],
        &["repack", "tree", "out", "--chunk", "1,4,4", "--shard", "2,8,8", "--quiet"],
        &["export", "tree", "out.raw", "--quiet"],
        &["export", "tree", "out.npy", "--quiet"],
        &["export", "tree", "out.ome.tif", "--quiet"],
        &["manifest", "tree", "out"],
        &["manifest", "tree"],
        &["replay", "tree", "out", "--memory", "1MiB", "--quiet"],
        &[
            "replay",
            "synthetic",
            "tree",
            "--overwrite",
            "--camera",
            "16x16xu8",
            "--frames",
            "3",
            "--memory",
            "1MiB",
            "--quiet",
        ],
    ];
    (0..2).map(|_| random.one(&all).to_vec()).collect()
}

/// Runs a command with an upper limit for memory and time; what it printed.
fn run(words: &[&str], folder: &Path) -> Result<Vec<u8>, String> {
    let limited = format!("ulimit -v {MEMORY_KIB}; exec \"$@\"");
    let outputs = ["stdout", "stderr"].map(|name| folder.join("said").join(name));
    let [out, err] = outputs.each_ref().map(|path| fs::File::create(path).unwrap());
    let mut child = Command::new("bash")
        .args(["-c", &limited, "bash", env!("CARGO_BIN_EXE_shardwright")])
        .args(words)
        .current_dir(folder.join("sent"))
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .spawn()
        .unwrap();
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > Duration::from_secs(SECONDS_MAX) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("still running after {SECONDS_MAX} s"));
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let said = outputs.map(|path| fs::read(path).unwrap()).concat();
    let text = String::from_utf8_lossy(&said);
    match (status.signal(), text.contains("panicked at")) {
        (Some(signal), _) => Err(format!("ended by signal {signal}: {text}")),
        (None, true) => Err(format!("panicked: {text}")),
        (None, false) => Ok(said),
    }
}

fn contains_secret(bytes: &[u8]) -> bool {
    bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes())
}

/// Hears of each file that is opened, read or listed in some folders.
struct Watch(OwnedFd);

impl Watch {
    fn new(folders: &[PathBuf]) -> Self {
        let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        for folder in folders {
            inotify::add_watch(&watch, folder, WatchFlags::OPEN | WatchFlags::ACCESS).unwrap();
        }
        Self(watch)
    }

    /// What was opened since the last call.
    fn opened(&self) -> Vec<String> {
        let mut room = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.0, &mut room);
        let mut names = Vec::new();
        while let Ok(event) = reader.next() {
            names.push(event.file_name().map_or("the folder".into(), |name| name.to_string_lossy().into_owned()));
        }
        names
    }
}

/// Makes one tree and runs commands on it. What went wrong, if anything.
fn attack(seed: u64, datasets: &[PathBuf], folder: &Path) -> Result<(), String> {
    let mut random = Random::new(seed);
    let _ = fs::remove_dir_all(folder);
    let (outside, sent) = (folder.join("outside"), folder.join("sent"));
    fs::create_dir_all(outside.join("private")).unwrap();
    fs::create_dir_all(folder.join("said")).unwrap();
    fs::create_dir_all(&sent).unwrap();
    // Long enough to be taken for pixels, an index, or a document.
    fs::write(outside.join("secret.txt"), SECRET.repeat(100)).unwrap();
    fs::write(outside.join("private/secret.bin"), SECRET.repeat(1000)).unwrap();
    fs::write(outside.join("private/zarr.json"), format!("{{\"zarr_format\": 3, \"{SECRET}\": 1}}")).unwrap();
    let tree = sent.join("tree");
    copy(random.one::<PathBuf>(datasets), &tree);
    let harms: Vec<_> = (0..1 + random.below(5)).map(|_| harm(&mut random, &tree, &outside)).collect();
    let around = [sent.clone(), folder.join("said")];
    let before = state(folder, &around);
    let watch = Watch::new(&[outside.clone(), outside.join("private")]);
    for words in commands(&mut random) {
        let told = |what: String| Err(format!("seed {seed}, {words:?}: {what}\n  after {harms:#?}"));
        let said = match run(&words, folder) {
            Ok(said) => said,
            Err(what) => return told(what),
        };
        let opened = watch.opened();
        if !opened.is_empty() {
            return told(format!("{opened:?} outside was opened"));
        }
        if state(folder, &around) != before {
            return told("something outside changed".into());
        }
        watch.opened();
        if contains_secret(&said) {
            return told(format!("shows what is outside: {}", String::from_utf8_lossy(&said)));
        }
        let shown =
            files(&sent).into_iter().filter(|path| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file()));
        if let Some(path) = shown.into_iter().find(|path| fs::read(path).is_ok_and(|bytes| contains_secret(&bytes))) {
            return told(format!("{} holds what is outside", path.display()));
        }
    }
    Ok(())
}

#[test]
fn a_hostile_folder_harms_nobody() {
    let number = |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().expect("a number"));
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("valid")).unwrap();
    let datasets = datasets(&folder.path().join("valid"));
    let first = number("SHARDWRIGHT_HOSTILE_FIRST").unwrap_or(0);
    let seeds: Vec<u64> = match std::env::var("SHARDWRIGHT_HOSTILE_SEEDS") {
        Ok(seeds) => seeds.split(',').map(|seed| seed.parse().expect("numbers")).collect(),
        Err(_) => (first..first + number("SHARDWRIGHT_HOSTILE_TREES").unwrap_or(200)).collect(),
    };
    let failures = std::thread::scope(|scope| {
        let lanes = [0, 1].map(|lane| {
            let (seeds, datasets, place) = (&seeds, &datasets, folder.path().join(format!("lane{lane}")));
            scope.spawn(move || {
                let own = seeds.iter().skip(lane).step_by(2);
                own.filter_map(|&seed| attack(seed, datasets, &place).err()).collect::<Vec<_>>()
            })
        });
        lanes.map(|lane| lane.join().unwrap()).concat()
    });
    assert!(
        failures.is_empty(),
        "{} of {} trees:\n{}",
        failures.len(),
        seeds.len(),
        failures[..failures.len().min(12)].join("\n")
    );
}
