//! The shardwright command.

mod args;
mod bayer;
mod console;
mod dma;
mod export;
mod failure;
mod feed;
mod finish;
mod images;
mod info;
mod interrupt;
mod machine;
mod manifest;
mod meter;
mod pace;
mod parts;
mod place;
mod plan;
mod probe;
mod progress;
mod pyramid;
mod recover;
mod region;
mod repack;
mod replay;
mod report;
mod run_config;
mod run_task;
mod soak;
mod source;
mod verify;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Cli, Command};
use console::{has_said, said, say, tell};
use failure::{Failure, exit};

fn main() -> ExitCode {
    // Nothing comes before it that a signal could end.
    if let Err(failure) = interrupt::begin(say_interrupted) {
        tell(format_args!("error: {failure}"));
        return ExitCode::from(failure.exit_code());
    }
    interrupt::ignore_size_limit();
    let cli = match Cli::try_parse_from(words()) {
        Ok(cli) => cli,
        Err(error) => return ended_by_clap(&error),
    };
    let trust = cli.command.trust();
    if trust.follow_links {
        shardwright::offline::follow_links_anywhere();
        source::follow_links_anywhere();
    }
    if trust.follow_manifests {
        shardwright::offline::follow_manifests_anywhere();
    }
    let (json, path) = (cli.command.report().json, cli.command.path().map(Path::to_path_buf));
    let ended = match cli.command {
        Command::Replay(args) if args.has_several_images() => images::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Info(args) => info::run(&args).map(|()| 0),
        Command::Export(args) => export::run(&args).map(|()| 0),
        Command::Manifest(args) => manifest::run(&args).map(|()| 0),
        Command::Verify(args) => verify::run(&args),
        Command::Recover(args) => recover::run(&args),
        Command::Probe(args) => probe::run(&args),
        Command::Pyramid(args) => pyramid::run(&args).map(|()| 0),
        Command::Repack(args) => repack::run(&args).map(|()| 0),
        Command::Plan(args) => plan::run(&args).map(|()| 0),
        Command::RunTask(args) => run_task::run(&args),
        Command::Create(args) => parts::create(&args),
        Command::Finish(args) => finish::run(&args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "shardwright", &mut script);
            say(&String::from_utf8_lossy(&script)).map(|()| 0)
        }
    };
    let code = ended.unwrap_or_else(|failure| {
        tell(format_args!("error: {failure}"));
        if json {
            say_error(&failure, path.as_deref());
        }
        failure.exit_code()
    });
    ExitCode::from(code)
}

/// The command line. Of `help`, the library that parses it knows no options, so one that asks for help goes.
fn words() -> Vec<OsString> {
    let mut words: Vec<_> = std::env::args_os().collect();
    if words.get(1).is_some_and(|command| command == "help") {
        words.retain(|word| word != "--help" && word != "-h");
    }
    words
}

/// With `--json`, there is one object on standard output in any case.
fn say_error(failure: &Failure, path: Option<&Path>) {
    // Where nobody listens any more, the exit code says it.
    let _ = say(&format!("{}\n", serde_json::json!({"error": failure.to_json(path)})));
}

/// Whether the command line, perhaps a wrong one, asks for JSON.
fn is_json() -> bool {
    std::env::args_os().any(|word| word == "--json")
}

/// The last words of a command that had not begun its work.
fn say_interrupted() {
    let failure = Failure::Interrupted("interrupted before anything was changed".to_owned());
    tell(format_args!("error: {failure}"));
    // What is on standard output already is the one object, or a part of it.
    if is_json() && !has_said() {
        say_error(&failure, None);
    }
}

/// Help, the version, or what is wrong with the command line.
fn ended_by_clap(error: &clap::Error) -> ExitCode {
    let printed = error.print();
    let is_usage = error.exit_code() == i32::from(exit::USAGE);
    if let (false, Err(failure)) = (is_usage, said(printed)) {
        tell(format_args!("error: {failure}"));
        return ExitCode::from(failure.exit_code());
    }
    if is_usage && is_json() {
        let text = error.to_string();
        say_error(&Failure::Usage(text.trim().trim_start_matches("error: ").to_owned()), None);
    }
    ExitCode::from(if is_usage { exit::USAGE } else { exit::FINE })
}
