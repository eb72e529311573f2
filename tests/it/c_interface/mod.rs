//! The C interface as a program meets it: installed into an empty prefix, found by pkg-config and by CMake, compiled
//! against the installed header, run, and the datasets read back.
//!
//! A C compiler is needed; not having one is a failure. Aravis, CMake and valgrind are used where they are; where they
//! are not, the test says so in a line that starts with "not run:", and in the file `SHARDWRIGHT_NOT_RUN`, which
//! `tools/test` counts.

mod archives;
mod buffers;
mod building;
mod linking;
mod options;
mod plates;
mod storms;
mod together;
mod wrapped;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use self::building::{Linking, Program, cmake, folder, is_there, not_run, prefix, run, run_for_output};
use serde_json::{Value, json};
use shardwright::offline::Array;
use shardwright::{Acquisition, Config, Dataset, Dim, Dtype};

/// The examples that run by themselves, and what each prints.
const EXAMPLES: [(&str, &str); 4] = [
    ("examples/c/camera_loop.c", "200 frames written, 0 missing\n"),
    ("examples/c/two_threads.c", "400 frames written, 0 missing\n100 frames written, 0 missing\n10 shards closed\n"),
    ("examples/c/embedded.c", "256 frames written, 0 missing\n"),
    ("examples/c/circular_buffer.cpp", "300 frames written, 0 missing\n"),
];

/// Programs of the tests, with the names of the datasets that each makes.
const TESTS: [(&str, &[&str]); 18] = [
    ("tests/it/c_interface/misuse.c", &["."]),
    ("tests/it/c_interface/misuse_threads.c", &["."]),
    ("tests/it/c_interface/messages.c", &["."]),
    ("tests/it/c_interface/used.c", &["run.zarr"]),
    ("tests/it/c_interface/buffers.c", &["run.zarr"]),
    ("tests/it/c_interface/growth.c", &["one.zarr", "two.zarr"]),
    ("tests/it/c_interface/moving.c", &["day1", "day2"]),
    ("tests/it/c_interface/colors.c", &["colors.zarr"]),
    ("tests/it/c_interface/roi.c", &["roi.zarr"]),
    ("tests/it/c_interface/aborting.c", &["aborted.zarr"]),
    ("tests/it/c_interface/together.c", &["plate.zarr"]),
    ("tests/it/c_interface/sharing.c", &["two.zarr"]),
    ("tests/it/c_interface/events.c", &["run.zarr"]),
    ("tests/it/c_interface/ending.c", &["run.zarr"]),
    ("tests/it/c_interface/ending_another.c", &["."]),
    ("tests/it/c_interface/values.c", &["run.zarr"]),
    ("tests/it/c_interface/own_buffers.c", &["one.zarr", "two.zarr", "three.zarr"]),
    ("tests/it/c_interface/wrapper.cpp", &["one.zarr", "two.zarr", "three.zarr", "four.zarr"]),
];

/// What valgrind looks at unless `SHARDWRIGHT_VALGRIND` is "all": each way in which memory changes hands, by the C
/// header and by the wrapper.
const MEMCHECKED: [&str; 4] = ["misuse.c", "used.c", "own_buffers.c", "wrapper.cpp"];

/// As many as valgrind shows the same with, which is some fifty times slower than the machine.
const FEWER_FRAMES: [(&str, &str); 2] = [("events.c", "2000"), ("aborting.c", "8")];

const SANITIZERS: [&str; 3] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];

fn frames(array: &Path) -> (Vec<u64>, impl Fn(u64) -> Vec<u8> + use<>) {
    let array = Array::open(array).unwrap();
    let shape = array.shape().to_vec();
    let mut one = shape.clone();
    one[0] = 1;
    let bytes = shape[1..].iter().product::<u64>() as usize * array.dtype().size();
    let frame = move |number| {
        let mut start = vec![0; one.len()];
        start[0] = number;
        let mut pixels = vec![0; bytes];
        array.read_region(&start, &one, &mut pixels).unwrap();
        pixels
    };
    (shape, frame)
}

fn u16s(count: u64, value: impl Fn(u64) -> u64) -> Vec<u8> {
    (0..count).flat_map(|at| (value(at) as u16).to_le_bytes()).collect()
}

fn column(path: &Path) -> Vec<[u8; 8]> {
    let bytes = Array::open(path).unwrap().read_all().unwrap();
    bytes.as_chunks().0.to_vec()
}

#[test]
fn the_camera_loop_gives_the_frames_that_went_in() {
    let folder = folder();
    let path = folder.path().join("run.zarr");
    let output = Program::new("examples/c/camera_loop.c").run(&[&path]);
    assert_eq!(output, EXAMPLES[0].1);
    let (shape, frame) = frames(&path.join("0"));
    assert_eq!(shape, [200, 512, 512]);
    for number in 0..200 {
        assert!(frame(number) == u16s(512 * 512, |at| 100 + (at + 8 * number) % 1024), "frame {number}");
    }
}

#[test]
fn threads_and_two_images_give_the_frames_that_went_in() {
    let folder = folder();
    let path = folder.path().join("run.zarr");
    let output = Program::new("examples/c/two_threads.c").run(&[&path]);
    assert_eq!(output, EXAMPLES[1].1);
    let (shape, frame) = frames(&path.join("main/0"));
    assert_eq!(shape, [400, 128, 128]);
    for number in 0..400 {
        assert!(frame(number) == vec![(number % 251) as u8; 128 * 128], "frame {number}");
    }
    let (shape, frame) = frames(&path.join("other/0"));
    assert_eq!(shape, [100, 128, 128]);
    for number in 0..100 {
        assert!(frame(number) == vec![100 + (number / 10) as u8; 128 * 128], "frame {number}");
    }
    let records = path.join("main/records");
    let numbers: Vec<i64> = column(&records.join("frame_number")).into_iter().map(i64::from_le_bytes).collect();
    assert_eq!(numbers, (0..400).collect::<Vec<_>>());
    let temperatures: Vec<f64> = column(&records.join("temperature")).into_iter().map(f64::from_le_bytes).collect();
    assert_eq!(temperatures, (0..400).map(|n| 20.0 + 0.5 * f64::from(n)).collect::<Vec<_>>());
    let times: Vec<u64> = column(&records.join("device_timestamp")).into_iter().map(u64::from_le_bytes).collect();
    assert_eq!(times, (0..400).map(|n| 1000 * n).collect::<Vec<_>>());
    let group: Value = serde_json::from_slice(&fs::read(path.join("main/zarr.json")).unwrap()).unwrap();
    assert_eq!(group["attributes"]["objective"], json!({"name": "20x", "na": 0.8}));
}

#[test]
fn a_storage_of_the_callers_own_gives_the_frames_that_went_in() {
    let folder = folder();
    let path = folder.path().join("run.zarr");
    let output = Program::new("examples/c/embedded.c").run(&[&path]);
    assert!(output.ends_with(EXAMPLES[2].1), "{output}");
    let (shape, frame) = frames(&path.join("0"));
    assert_eq!(shape, [256, 64, 64]);
    for number in 0..256 {
        assert!(frame(number) == u16s(64 * 64, |at| number * 17 + at), "frame {number}");
    }
}

#[test]
fn a_circular_buffer_gives_the_frames_that_went_in() {
    let folder = folder();
    let path = folder.path().join("run.zarr");
    let output = Program::new("examples/c/circular_buffer.cpp").run(&[&path]);
    assert_eq!(output, EXAMPLES[3].1);
    let (shape, frame) = frames(&path.join("0"));
    assert_eq!(shape, [300, 128, 256]);
    for number in 0..300 {
        assert!(frame(number) == u16s(128 * 256, |at| number * 31 + at % 977), "frame {number}");
    }
}

#[test]
fn wrong_calls_end_in_codes() {
    for (program, at_least) in [("misuse.c", 150), ("misuse_threads.c", 25), ("messages.c", 40)] {
        let folder = folder();
        let output = Program::new(&format!("tests/it/c_interface/{program}")).run(&[folder.path()]);
        let calls: u32 = output.strip_suffix(" wrong calls\n").unwrap().parse().unwrap();
        assert!(calls >= at_least, "{program}: {output}");
    }
}

#[test]
fn the_wrapper_works_with_and_without_exceptions() {
    for options in [&[][..], &["-fno-exceptions", "-fno-rtti"]] {
        let folder = folder();
        let paths = ["one", "two", "three", "four"].map(|name| folder.path().join(name));
        Program::new("tests/it/c_interface/wrapper.cpp").with(options).run(&paths.each_ref());
    }
}

/// The figures that `sw_memory_needed` reports are bounds of what is really taken, and the frame path takes nothing.
#[test]
fn memory_stays_within_what_was_reported() {
    let program = Program::new("examples/c/embedded.c").and("tests/it/c_interface/counting.c").linked(Linking::Static);
    let program = program.with(&["-Wl,--wrap=sw_create_in,--wrap=sw_finish,--wrap=mmap64"]);
    let output = run_for_output(&mut program.command::<&str>(&[]));
    let counts: Value = serde_json::from_str(String::from_utf8_lossy(&output.stderr).trim()).unwrap();
    let count = |name: &str| counts[name].as_u64().unwrap();
    assert!(count("heap") + count("mapped") <= count("needed"), "{counts}");
    assert!(count("mapped") >= 512 << 10, "the ring was not counted: {counts}");
    // A thread that waits for the first time makes itself a place to wait in; 256 frames went by.
    assert!(count("by_caller") <= 8 && count("by_workers") <= 8, "{counts}");
}

/// A program of tomorrow runs with today's library. The other way round stands beside the code that reads such structs.
#[test]
fn a_program_may_be_compiled_for_a_newer_library() {
    let folder = folder();
    let paths = ["one.zarr", "two.zarr"].map(|name| folder.path().join(name));
    Program::new("tests/it/c_interface/growth.c").run(&[&paths[0], &paths[1]]);
    for path in paths {
        assert_eq!(Array::open(path.join("0")).unwrap().shape(), [3, 64, 64]);
    }
}

#[test]
fn whoever_waits_for_the_end_hears_of_an_abort() {
    let folder = folder();
    let path = folder.path().join("run.zarr");
    Program::new("tests/it/c_interface/aborting.c").run(&[&path]);
    assert_eq!(Array::open(path.join("0")).unwrap().shape()[1..], [512, 512]);
}

/// Every file below `folder` and its bytes.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match path.is_dir() {
            true => found.extend(contents(&path)),
            false => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
    found
}

/// What lies under the same names where the program goes to is as it was.
#[test]
fn a_program_may_change_its_working_directory() {
    let folder = folder();
    let [day1, day2] = ["day1", "day2"].map(|day| folder.path().join(day));
    fs::create_dir(&day2).unwrap();
    let dims = || vec![Dim::time(None).chunk(1).shard(8), Dim::y(16), Dim::x(16)];
    let config = || Config { dtype: Dtype::U8, dims: dims(), ring_bytes: 1 << 20, ..Config::default() };
    let yesterday = Acquisition::create(day2.join("run.zarr"), config()).unwrap();
    let many = Dataset::create(day2.join("many.zarr")).unwrap();
    for acquisition in [yesterday, many.acquisition("left", config()).unwrap()] {
        assert_eq!(acquisition.append(&[7; 40 * 256]).unwrap().frames, 40);
        acquisition.finish().unwrap();
    }
    drop(many);
    let before = contents(&day2);
    Program::new("tests/it/c_interface/moving.c").run(&[&day1, &day2]);
    assert!(contents(&day2) == before, "yesterday's data are as they were");
    for (array, count) in [("run.zarr/0", 100), ("many.zarr/left/0", 20)] {
        let (shape, frame) = frames(&day1.join(array));
        assert_eq!(shape, [count, 16, 16]);
        assert!((0..count).all(|number| frame(number) == vec![number as u8 + 1; 256]), "{array}");
    }
}

#[test]
fn the_static_library_links_by_pkg_config() {
    let folder = folder();
    let path = folder.path().join("run.zarr");
    let program = Program::new("examples/c/camera_loop.c").linked(Linking::Static);
    assert_eq!(program.run(&[&path]), EXAMPLES[0].1);
}

#[test]
fn the_library_is_found_by_its_soname_and_shows_only_its_own_names() {
    let library = prefix().join("lib/libshardwright.so");
    let dynamic = run_for_output(Command::new("readelf").arg("-d").arg(&library));
    let [major, minor] = ["MAJOR", "MINOR"].map(|part| std::env::var(format!("CARGO_PKG_VERSION_{part}")).unwrap());
    let soname = if major == "0" { format!("0.{minor}") } else { major };
    assert!(String::from_utf8_lossy(&dynamic.stdout).contains(&format!("[libshardwright.so.{soname}]")));
    let symbols = run_for_output(Command::new("nm").args(["-D", "--defined-only"]).arg(&library));
    let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
    let names: Vec<&str> = symbols.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    assert!(names.len() > 20 && names.iter().all(|name| name.starts_with("sw_")), "{names:?}");
    // Every function of the header is there.
    let header = fs::read_to_string(prefix().join("include/shardwright.h")).unwrap();
    let called = header.lines().filter_map(|line| line.split_once('(').filter(|_| !line.starts_with("//")));
    let functions: Vec<&str> = called.filter_map(|(before, _)| before.split(['*', ' ']).next_back()).collect();
    let functions: Vec<_> = functions.into_iter().filter(|name| name.starts_with("sw_")).collect();
    assert!(functions.len() > 20);
    assert!(functions.iter().all(|name| names.contains(name)), "{functions:?} {names:?}");
}

#[test]
fn the_static_library_shows_only_its_own_names() {
    let library = prefix().join("lib/libshardwright.a");
    let symbols = run_for_output(Command::new("nm").args(["--defined-only", "--extern-only"]).arg(&library));
    let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
    let names: Vec<&str> = symbols.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    assert!(names.len() > 20 && names.iter().all(|name| name.starts_with("sw_")), "{names:?}");
}

/// A library that was moved as a whole is found where it is.
#[test]
fn the_pkg_config_file_moves_with_the_library() {
    let folder = folder();
    let moved = folder.path().join("moved");
    run_for_output(Command::new("cp").arg("-r").arg(prefix()).arg(&moved));
    let mut asked = Command::new("pkg-config");
    asked.args(["--cflags", "--libs", "shardwright"]).env("PKG_CONFIG_PATH", moved.join("lib/pkgconfig"));
    let said = run_for_output(&mut asked);
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let flags = said.split_whitespace().filter_map(|flag| flag.strip_prefix("-I").or(flag.strip_prefix("-L")));
    let folders: Vec<_> = flags.map(|folder| fs::canonicalize(folder).unwrap()).collect();
    assert_eq!(folders, ["include", "lib"].map(|name| fs::canonicalize(moved.join(name)).unwrap()), "{said}");
}

#[test]
fn cmake_finds_the_package() {
    let Some(cmake) = cmake() else { return not_run("find_package", "no cmake on this machine") };
    let folder = folder();
    let project = "cmake_minimum_required(VERSION 3.16)\nproject(finds_it C CXX)\nfind_package(shardwright 0.1 \
                   REQUIRED)\nadd_executable(shared LOOP)\ntarget_link_libraries(shared PRIVATE \
                   shardwright::shardwright)\nadd_executable(static LOOP)\ntarget_link_libraries(static PRIVATE \
                   shardwright::static)\nadd_executable(cxx CXX_LOOP)\ntarget_link_libraries(cxx PRIVATE \
                   shardwright::shardwright)\nset_target_properties(cxx PROPERTIES CXX_STANDARD \
                   17)\nfind_package(Threads REQUIRED)\ntarget_link_libraries(cxx PRIVATE \
                   Threads::Threads)\nfind_package(shardwright 0.0.1 \
                   QUIET)\nif(shardwright_FOUND)\nmessage(FATAL_ERROR \"0.0.1 does not fit\")\nendif()\n";
    let root = env!("CARGO_MANIFEST_DIR");
    let project = project
        .replace("CXX_LOOP", &format!("{root}/examples/c/circular_buffer.cpp"))
        .replace("LOOP", &format!("{root}/examples/c/camera_loop.c"));
    fs::write(folder.path().join("CMakeLists.txt"), project).unwrap();
    let build = folder.path().join("build");
    let mut configure = Command::new(&cmake);
    configure.arg("-S").arg(folder.path()).arg("-B").arg(&build);
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix().display()));
    run(&mut configure);
    run(Command::new(&cmake).arg("--build").arg(&build));
    for name in ["shared", "static"] {
        let mut command = Command::new(build.join(name));
        let output = run_for_output(command.arg(folder.path().join(name).with_extension("zarr")));
        assert_eq!(String::from_utf8_lossy(&output.stdout), EXAMPLES[0].1);
    }
    run(Command::new(build.join("cxx")).arg(folder.path().join("cxx.zarr")));
}

/// All programs that need no camera, each with the paths of what it makes.
fn each_program(run: impl Fn(&str, &[PathBuf])) {
    for (source, names) in EXAMPLES.iter().map(|(source, _)| (*source, &["run.zarr"][..])).chain(TESTS) {
        let folder = folder();
        let paths: Vec<_> = names.iter().map(|name| folder.path().join(name)).collect();
        run(source, &paths);
    }
}

#[test]
fn sanitizers_find_nothing() {
    each_program(|source, paths| drop(Program::new(source).with(&SANITIZERS).run(paths)));
}

#[test]
fn valgrind_finds_nothing() {
    if !is_there("valgrind") {
        return not_run("valgrind", "no valgrind on this machine");
    }
    let all = std::env::var("SHARDWRIGHT_VALGRIND").is_ok_and(|which| which == "all");
    let looked_at = Cell::new(0);
    each_program(|source, paths| {
        if !all && !MEMCHECKED.iter().any(|name| source.ends_with(&format!("/{name}"))) {
            return;
        }
        looked_at.set(looked_at.get() + 1);
        let program = Program::new(source);
        let mut command = Command::new("valgrind");
        // The standard library keeps the main thread's handle till the end, by a pointer into its middle: "possibly
        // lost".
        command.args(["-q", "--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=definite"]);
        // It runs one thread at a time; without turns, one that looks for another's progress would look for ever.
        command.args(["--errors-for-leak-kinds=definite", "--fair-sched=yes"]);
        command.arg(program.path()).args(paths);
        command.args(FEWER_FRAMES.iter().filter(|(name, _)| source.ends_with(name)).map(|(_, frames)| frames));
        let output = run_for_output(&mut command);
        assert!(output.stderr.is_empty(), "{source}:\n{}", String::from_utf8_lossy(&output.stderr));
    });
    assert!(looked_at.get() >= MEMCHECKED.len(), "a program has another name");
}

/// The simulated camera's picture is a diagonal ramp that moves with the frame's id.
#[test]
fn a_genicam_camera_writes_into_the_ring() {
    let installed = Command::new("pkg-config").args(["--exists", "aravis-0.8"]).status();
    if !installed.is_ok_and(|status| status.success()) || !is_there("arv-fake-gv-camera-0.8") {
        return not_run(
            "GenICam camera",
            "no aravis on this machine (Debian: libaravis-dev, aravis-tools, libusb-1.0-0-dev)",
        );
    }
    const WANTED: u64 = 1000;
    let folder = folder();
    let path = folder.path().join("run.zarr");
    let flags = building::pkg_config(&["--cflags", "--libs", "aravis-0.8"]);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let program = Program::new("examples/c/genicam.c").with(&flags);
    // Another camera of that name may be on the network.
    let serial = format!("SW{}", std::process::id());
    let mut camera = Command::new("arv-fake-gv-camera-0.8");
    let mut camera = camera.args(["-i", "lo", "-s", &serial]).stdout(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let output = program.command(&[path.as_os_str(), format!("Aravis-{serial}").as_ref(), "1000".as_ref()]).output();
    let _ = camera.kill();
    let _ = camera.wait();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(text.starts_with("1000 frames written"), "{text}");

    let group: Value = serde_json::from_slice(&fs::read(path.join("zarr.json")).unwrap()).unwrap();
    let reported = |number: u64| {
        let ranges = group["attributes"]["shardwright"]["missing"].as_array().unwrap();
        ranges.iter().any(|range| (range[0].as_u64().unwrap()..range[1].as_u64().unwrap()).contains(&number))
    };
    let (shape, frame) = frames(&path.join("0"));
    let numbers: Vec<i64> = column(&path.join("records/frame_number")).into_iter().map(i64::from_le_bytes).collect();
    let ids: Vec<u64> = column(&path.join("records/frame_id")).into_iter().map(u64::from_le_bytes).collect();
    assert_eq!(numbers.len() as u64, shape[0]);
    let mut there = 0;
    for (at, (&number, &id)) in numbers.iter().zip(&ids).enumerate() {
        if number < 0 {
            assert!(reported(at as u64), "frame {at} is missing, and nobody says so");
            continue;
        }
        assert!(number == at as i64 && !reported(at as u64));
        let (rows, columns) = (shape[1], shape[2]);
        let ramp: Vec<u8> = (0..rows * columns).map(|p| ((p % columns + p / columns + id) % 255) as u8).collect();
        assert!(frame(at as u64) == ramp, "frame {at}, id {id}, is not what the camera sent");
        there += 1;
    }
    assert_eq!(there, WANTED);
}
