//! Installs the library into an empty prefix, and compiles programs against what is there and nothing else.
#![allow(unreachable_pub)]

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where this test was built.
pub fn target_folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().to_path_buf()
}

pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Where the library is installed, once for all tests.
pub fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let base = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c_interface");
        let _ = fs::remove_dir_all(&base);
        let prefix = base.join("prefix");
        let mut command = Command::new(root().join("tools/install-c"));
        command.args(["--profile", "dev", "--prefix"]).arg(&prefix);
        // Where what it stands on is compiled already.
        command.env("CARGO_TARGET_DIR", target_folder());
        run(&mut command);
        prefix
    })
}

pub fn run(command: &mut Command) {
    run_for_output(command);
}

/// No program takes a fifth of that, also with valgrind on a busy machine: one that waits for ever fails its test and
/// not the whole run.
const LIMIT: Duration = Duration::from_secs(900);

pub fn run_for_output(command: &mut Command) -> Output {
    let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = started.unwrap_or_else(|error| panic!("can't run {command:?}: {error}"));
    let id = child.id().to_string();
    let (ended, wait) = mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        if wait.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
            let _ = Command::new("kill").args(["-9", &id]).status();
        }
    });
    let output = child.wait_with_output().unwrap();
    drop(ended);
    watch.join().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    output
}

pub fn is_there(program: &str) -> bool {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|folder| folder.join(program).is_file())
}

/// Says that a test can't run here.
pub fn not_run(what: &str, why: &str) {
    println!("not run: {what} ({why})");
    if let Some(path) = std::env::var_os("SHARDWRIGHT_NOT_RUN") {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        writeln!(file, "{what}\t{why}").unwrap();
    }
}

/// What pkg-config says, with the installed package in its path.
pub fn pkg_config(arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.args(arguments);
    let mut path = prefix().join("lib/pkgconfig").into_os_string();
    if let Some(more) = std::env::var_os("PKG_CONFIG_PATH") {
        path.push(":");
        path.push(more);
    }
    command.env("PKG_CONFIG_PATH", path);
    let output = run_for_output(&mut command);
    String::from_utf8(output.stdout).unwrap().split_whitespace().map(str::to_owned).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Linking {
    Shared,
    Static,
    /// No shared library at all: `gcc -static`.
    Whole,
}

/// A program of one or two sources.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Program {
    sources: Vec<PathBuf>,
    linking: Linking,
    options: Vec<String>,
}

impl Program {
    pub fn new(source: &str) -> Self {
        Self { sources: vec![root().join(source)], linking: Linking::Shared, options: Vec::new() }
    }

    pub fn and(mut self, source: &str) -> Self {
        self.sources.push(root().join(source));
        self
    }

    pub fn linked(self, linking: Linking) -> Self {
        Self { linking, ..self }
    }

    pub fn with(mut self, options: &[&str]) -> Self {
        self.options.extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    /// The compiled program, for all tests that run it.
    pub fn path(&self) -> PathBuf {
        static BUILT: Mutex<Option<HashMap<Program, Arc<OnceLock<PathBuf>>>>> = Mutex::new(None);
        let (number, built) = {
            let mut built = BUILT.lock().unwrap();
            let all = built.get_or_insert_default();
            let number = all.len();
            (number, all.entry(self.clone()).or_default().clone())
        };
        built.get_or_init(|| self.compile(number)).clone()
    }

    fn compile(&self, number: usize) -> PathBuf {
        let prefix = prefix();
        let name = self.sources[0].file_stem().unwrap().to_string_lossy();
        let path = prefix.with_file_name(format!("{name}-{number}"));
        let is_c = self.sources[0].extension() == Some(OsStr::new("c"));
        let (variable, default) = if is_c { ("CC", "cc") } else { ("CXX", "c++") };
        let compiler = std::env::var(variable).unwrap_or_else(|_| default.to_owned());
        let mut command = Command::new(&compiler);
        command.arg(if is_c { "-std=gnu11" } else { "-std=c++17" });
        command
            .args(["-g", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
            .args(&self.sources)
            .arg("-o")
            .arg(&path);
        match self.linking {
            Linking::Shared => {
                command.args(pkg_config(&["--cflags", "--libs", "shardwright"]));
                // Not in front of LD_LIBRARY_PATH, so that a test may bring another library.
                command.arg(format!("-Wl,--enable-new-dtags,-rpath,{}", prefix.join("lib").display()));
            }
            Linking::Whole => {
                let libraries = pkg_config(&["--static", "--cflags", "--libs", "shardwright"]);
                let of_static = |flag: &String| if flag == "-lgcc_s" { "-lgcc_eh".to_owned() } else { flag.clone() };
                command.arg("-static").args(libraries.iter().map(of_static));
            }
            Linking::Static => {
                let libraries = pkg_config(&["--static", "--cflags", "--libs", "shardwright"]);
                command.arg("-Wl,-Bstatic").args(libraries.iter().filter(|flag| !is_of_the_system(flag)));
                command.arg("-Wl,-Bdynamic").args(libraries.iter().filter(|flag| is_of_the_system(flag)));
            }
        }
        // Libraries of the options come after the sources that need them.
        command.args(&self.options).arg("-lpthread");
        let output = command.output().unwrap_or_else(|error| {
            panic!("can't run {compiler}: {error}; these tests need a compiler for C and C++ (Debian: apt install g++)")
        });
        assert!(output.status.success(), "{command:?}:\n{}", String::from_utf8_lossy(&output.stderr));
        path
    }

    pub fn command<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Command {
        let mut command = Command::new(self.path());
        command.args(arguments);
        command
    }

    /// Runs it; what it printed.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> String {
        String::from_utf8(run_for_output(&mut self.command(arguments)).stdout).unwrap()
    }
}

/// Whether a flag names a library that comes with the system, which a static program still takes as it is.
fn is_of_the_system(flag: &str) -> bool {
    flag.starts_with("-l") && flag != "-lshardwright"
}

/// On the machine, or in the virtual environment that `tools/test` makes.
pub fn cmake() -> Option<std::path::PathBuf> {
    let venv = target_folder().join("venv/bin/cmake");
    if is_there("cmake") { Some("cmake".into()) } else { Some(venv).filter(|cmake| cmake.exists()) }
}
