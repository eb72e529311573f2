//! Options that do not belong to what is read.

use crate::args::RecordingArgs;
use crate::failure::Failure;

/// Options that are about the bytes of a raw file.
const OF_RAW_FILES: [&str; 8] =
    ["--shape", "--axes", "--dtype", "--pixel-format", "--unused-bits", "--offset", "--row-stride", "--frame-stride"];

pub(super) fn refuse_raw_options(args: &RecordingArgs, what: &str) -> Result<(), Failure> {
    refuse_options(args, &OF_RAW_FILES, what)
}

/// The same of what may have dimensions without names.
pub(super) fn refuse_all_but_axes(args: &RecordingArgs, what: &str) -> Result<(), Failure> {
    refuse_options(args, &OF_RAW_FILES.map(|option| if option == "--axes" { "" } else { option }), what)
}

fn refuse_options(args: &RecordingArgs, refused: &[&str], what: &str) -> Result<(), Failure> {
    let given = [
        !args.shape.is_empty(),
        !args.axes.is_empty(),
        args.dtype.is_some(),
        args.pixel_format.is_some(),
        args.unused_bits != 0,
        args.offset != 0,
        args.row_stride.is_some(),
        args.frame_stride.is_some(),
    ];
    let given = OF_RAW_FILES.iter().zip(given).filter(|(option, given)| *given && refused.contains(option));
    match given.map(|(option, _)| option).next() {
        Some(&"--axes") => {
            Err(Failure::Usage(format!("--axes is for what does not name its dimensions itself, as {what} does")))
        }
        Some(option) => Err(Failure::Usage(format!("{option} belongs to raw files; {what} says this itself"))),
        None => Ok(()),
    }
}

pub(super) fn refuse_option(option: &str, is_given: bool, what: &str) -> Result<(), Failure> {
    match is_given {
        true => Err(Failure::Usage(format!("{option} chooses one of several images; {what} has none to choose from"))),
        false => Ok(()),
    }
}
