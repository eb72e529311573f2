//! The words of `shardwright pyramid`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use shardwright::offline::{Depth, PyramidMethod};

use super::groups::{ReportArgs, TrustArgs, WorkArgs};
use super::help;
use super::values::{FROM_0, number, one_of};

/// Add smaller levels to an image of OME-Zarr, each half as large as the one before in y and x, its last two axes
#[derive(Debug, Args)]
#[command(after_help = help::pyramid())]
pub(crate) struct PyramidArgs {
    /// The image, or a dataset that holds one
    pub(crate) path: PathBuf,
    /// How pixels become one: mean, median, min, max, the first one, or the most frequent one [default: mean; mode, if
    /// the image is one of labels]
    #[arg(long, value_parser = one_of(PyramidMethod::ALL, PyramidMethod::name))]
    pub(crate) method: Option<PyramidMethod>,
    /// How many levels to make beside level 0, as far as y or x has something to halve [default: until both have 256
    /// pixels at most]
    #[arg(long, value_name = "N", value_parser = number::<usize>(FROM_0))]
    pub(crate) levels: Option<usize>,
    /// Halve z, too: always, or auto: once planes are no further apart than pixels
    #[arg(long, value_name = "WHEN", default_value = "never")]
    #[arg(value_parser = one_of(Depth::ALL, Depth::name))]
    pub(crate) z: Depth,
    /// Dimensions that are not halved: y or x
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    #[arg(value_parser = PossibleValuesParser::new(["y", "x"]))]
    pub(crate) keep: Vec<String>,
    /// Replace levels that are there
    #[arg(long)]
    pub(crate) overwrite: bool,
    #[command(flatten)]
    pub(crate) work: WorkArgs,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
}
