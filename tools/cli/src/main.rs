//! The shardwright command.

mod args;
mod dma;
mod export;
mod failure;
mod feed;
mod info;
mod interrupt;
mod manifest;
mod meter;
mod pace;
mod probe;
mod progress;
mod recover;
mod region;
mod repack;
mod replay;
mod report;
mod run_config;
mod soak;
mod source;
mod verify;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    if cli.follow_links {
        shardwright::offline::follow_links_anywhere();
    }
    if cli.follow_manifests {
        shardwright::offline::follow_manifests_anywhere();
    }
    let ended = match cli.command {
        Command::Replay(args) => replay::run(&args),
        Command::Info(args) => info::run(&args).map(|()| 0),
        Command::Export(args) => export::run(&args).map(|()| 0),
        Command::Manifest(args) => manifest::run(&args).map(|()| 0),
        Command::Verify(args) => verify::run(&args),
        Command::Recover(args) => recover::run(&args),
        Command::Probe(args) => probe::run(&args),
        Command::Repack(args) => repack::run(&args).map(|()| 0),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "shardwright", &mut script);
            report::say(&String::from_utf8_lossy(&script)).map(|()| 0)
        }
    };
    let code = ended.unwrap_or_else(|failure| {
        eprintln!("error: {failure}");
        failure.exit_code()
    });
    ExitCode::from(code)
}
