//! What is committed: sources of a size that one can read, and nothing that a run has left.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const FILE_BYTES_MAX: u64 = 200_000;
/// Golden bytes of many datasets, as text, and what is as large for a reason.
const LARGE: [&str; 2] = ["tests/it/golden/codecs.txt", "tests/it/golden/repacked.txt"];
/// How names of folders and files end that runs, benches and tests make.
const LEFTOVERS: [&str; 8] = [".zarr", ".ozx", ".npy", ".raw", ".tif", ".tiff", "__pycache__", ".pytest_cache"];

/// What is held to a length.
const SOURCES: [&str; 6] = ["rs", "py", "c", "cpp", "h", "hpp"];
const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 60;
const COLUMNS_MAX: usize = 120;

/// All committed files, by their paths in the repository; none in an unpacked archive of the sources.
fn committed() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    if !root.join(".git").exists() {
        return Vec::new();
    }
    let mut git = Command::new("git");
    // Whoever owns the folder: nothing is run that it says.
    git.arg("-C").arg(root).args(["-c", "safe.directory=*", "ls-files", "-z"]);
    let Ok(said) = git.output() else { return Vec::new() };
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let names = String::from_utf8(said.stdout).expect("names are text");
    let files = names.split_terminator('\0').map(PathBuf::from);
    // Removed, and not yet committed.
    files.filter(|file| root.join(file).symlink_metadata().is_ok()).collect()
}

fn is_left_over(file: &Path) -> bool {
    let ends = |part: &OsStr| LEFTOVERS.iter().any(|ending| part.to_string_lossy().ends_with(ending));
    file.iter().any(ends)
}

#[test]
fn nothing_large_and_nothing_that_a_run_has_left_is_committed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for file in committed() {
        assert!(!is_left_over(&file), "{} is left over from a run", file.display());
        let bytes = root.join(&file).symlink_metadata().unwrap().len();
        let is_listed = LARGE.iter().any(|large| file == Path::new(large));
        assert!(bytes <= FILE_BYTES_MAX || is_listed, "{} has {bytes} bytes", file.display());
    }
}

/// What is too long in a source, with the line where it begins.
fn too_long(source: &str) -> Vec<String> {
    let lines: Vec<&str> = source.lines().collect();
    let mut found = Vec::new();
    if lines.len() > FILE_LINES_MAX {
        found.push(format!("{} lines", lines.len()));
    }
    found.extend(too_wide(&lines));
    found
}

fn too_wide(lines: &[&str]) -> Vec<String> {
    let columns = lines.iter().map(|line| line.chars().count()).enumerate();
    let wide = columns.filter(|(_, columns)| *columns > COLUMNS_MAX);
    wide.map(|(at, columns)| format!("line {} has {columns} columns", at + 1)).collect()
}

/// What is too wide in a page, where a row of a table has no other way.
fn too_wide_prose(page: &str) -> Vec<String> {
    too_wide(&page.lines().map(|line| if line.starts_with('|') { "" } else { line }).collect::<Vec<_>>())
}

/// Which functions of a source in Rust are too long.
fn long_functions(source: &str) -> Vec<String> {
    let lines: Vec<&str> = source.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let begins = code.starts_with("fn ") || code.contains(" fn ") && !code.starts_with("//");
        if !begins || line.ends_with(['}', ';']) {
            continue;
        }
        // As rustfmt leaves it, a function ends where a brace stands as far to the right as it does itself.
        let indent = &line[..line.len() - code.len()];
        let ends = |line: &&&str| match line.strip_prefix(indent) {
            Some(rest) => rest == "}" || rest.starts_with(')') && rest.ends_with(';'),
            None => false,
        };
        let length = 1 + lines[at..].iter().take_while(|line| !ends(line)).count();
        if length > FUNCTION_LINES_MAX {
            found.push(format!("the function in line {} has {length} lines", at + 1));
        }
    }
    found
}

#[test]
fn files_and_functions_are_short() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let extension = |file: &Path| file.extension().map(|extension| extension.to_string_lossy().into_owned());
    // Users of the C interface copy single files.
    let is_source = |file: &PathBuf| {
        extension(file).is_some_and(|is| SOURCES.contains(&is.as_str())) && !file.starts_with("include")
    };
    let sources = committed().into_iter().filter(is_source).map(|file| {
        let source = fs::read_to_string(root.join(&file)).unwrap();
        let mut found = too_long(&source);
        if extension(&file).as_deref() == Some("rs") {
            found.extend(long_functions(&source));
        }
        (file, found)
    });
    let pages = committed().into_iter().filter(|file| extension(file).as_deref() == Some("md")).map(|file| {
        let found = too_wide_prose(&fs::read_to_string(root.join(&file)).unwrap());
        (file, found)
    });
    let offences: Vec<_> = sources.chain(pages).filter(|(_, found)| !found.is_empty()).collect();
    assert!(offences.is_empty(), "these are longer than they may be: {offences:#?}");
}

#[test]
fn what_is_too_long_or_left_over_is_found() {
    let function =
        |lines: usize| format!("impl A {{\n    pub fn f(\n    ) {{\n{}    }}\n}}\n", "        g();\n".repeat(lines));
    assert_eq!(long_functions(&function(57)), [""; 0]);
    assert_eq!(long_functions(&function(58)), ["the function in line 2 has 61 lines"]);
    let declared = format!("trait A {{\n    fn f(\n    ) -> u8;\n{}    }}\n}}\n", "    const B: u8;\n".repeat(60));
    assert_eq!(long_functions(&declared), [""; 0]);
    assert_eq!(too_long(&"\n".repeat(500)), [""; 0]);
    assert_eq!(too_long(&"\n".repeat(501)), ["501 lines"]);
    assert_eq!(too_long(&format!("{}\n{}\n", "ä".repeat(120), "ä".repeat(121))), ["line 2 has 121 columns"]);
    for file in ["run.zarr/0/c/0", "benches/out.ome.zarr/zarr.json", "a.ozx", "tests/python/__pycache__/x.pyc"] {
        assert!(is_left_over(Path::new(file)), "{file}");
    }
    for file in ["tests/it/zarrs.rs", "src/format/zarr3.rs", "tests/it/golden/codecs.txt"] {
        assert!(!is_left_over(Path::new(file)), "{file}");
    }
}
