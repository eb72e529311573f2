//! `shardwright verify`: whether a dataset is sound, as a table or as JSON.

use std::fmt::Write;

use shardwright::offline::{self, Verification, VerifyOptions};
use shardwright::words::{HAS, IS, count, count_that, of_number};

use crate::args::VerifyArgs;
use crate::console::say;
use crate::failure::{Failure, exit, name_options};
use crate::info::is_record;
use crate::report::{decimal, table};
use crate::{interrupt, meter};

/// Runs the command and returns its exit code.
pub(crate) fn run(args: &VerifyArgs) -> Result<u8, Failure> {
    let verify = offline::Verify::new(&args.path, &VerifyOptions::default())?;
    let run = || meter::during(args.report.quiet, || verify.progress().into(), || verify.run());
    let mut verification = interrupt::stopping_whole(|| verify.stop(), run)?;
    name_options(verification.findings.iter_mut().map(|finding| &mut finding.what));
    if args.report.json {
        let json = serde_json::to_string(&verification).expect("it holds only numbers, strings and lists");
        say(&format!("{json}\n"))?;
    } else if !args.report.quiet {
        say(&to_text(&verification))?;
    }
    Ok(code_of(&verification))
}

pub(crate) fn code_of(verification: &Verification) -> u8 {
    match (verification.damage, verification.unchecked) {
        (0, 0) => exit::FINE,
        (0, _) => exit::UNSUPPORTED,
        _ => exit::INPUT,
    }
}

pub(crate) fn to_text(verification: &Verification) -> String {
    let mut text = String::new();
    let mut arrays = table(["array", "files", "chunks", "bytes", "headers", "damage"]);
    for array in &verification.arrays {
        let headers = match (array.headers, array.without_header) {
            (0, 0) => "-".to_owned(),
            (0, _) => "absent".to_owned(),
            (headers, _) => headers.to_string(),
        };
        arrays.add_row([
            if array.path.is_empty() { "/".to_owned() } else { array.path.clone() },
            array.files.to_string(),
            array.chunks.to_string(),
            decimal(array.bytes),
            headers,
            array.damage.to_string(),
        ]);
    }
    let mut line = |line: String| writeln!(text, "{line}").expect("a string takes it");
    line(format!("{}\n", arrays.trim_fmt()));
    for finding in &verification.findings {
        line(format!("{:9}  {finding}", finding.severity));
    }
    let left_out = (verification.damage + verification.unchecked + verification.notes)
        .saturating_sub(verification.findings.len() as u64);
    if left_out > 0 {
        line(format!("and {left_out} more"));
    }
    let chunks: u64 = verification.arrays.iter().map(|array| array.chunks).sum();
    let bare = verification.without_checksum();
    let of_pixels = verification.arrays.iter().filter(|array| !is_record(&array.path));
    let bare_pixels: u64 = of_pixels.map(|array| array.without_checksum).sum();
    line(match (verification.damage, verification.unchecked) {
        (0, 0) if bare == 0 => format!("sound: all {} what was written", count_that(chunks, "chunk", IS)),
        (0, 0) if chunks == 1 => {
            "sound: its one chunk decodes; it has no checksum, so changed pixels would not be found".to_owned()
        }
        (0, 0) => format!(
            "sound: all {}; {bare} of them{} {} no checksum, so changed {} would not be found",
            count_that(chunks, "chunk", ["decodes", "decode"]),
            if bare_pixels == 0 { ", all of records," } else { "" },
            of_number(&bare, HAS),
            if bare_pixels == 0 { "records" } else { "pixels" }
        ),
        (0, unchecked) => format!("not checked: {} of what is not read here", count_that(unchecked, "finding", IS)),
        (damage, _) => format!("damaged: {}", count(damage, "finding")),
    });
    text
}
