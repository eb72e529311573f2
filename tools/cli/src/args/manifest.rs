//! The words of `shardwright manifest`.

use std::path::PathBuf;

use clap::Args;
use shardwright::ManifestForm;

use super::groups::{ReportArgs, TrustArgs};
use super::help;
use super::values::{FROM_0, number, one_of, within};

/// Write down where a dataset's chunks lie, for readers that go by references: kerchunk.json and manifest.json
#[derive(Debug, Args)]
#[command(after_help = help::manifest())]
pub(crate) struct ManifestArgs {
    /// The dataset
    pub(crate) path: PathBuf,
    /// The folder to create [default: beside the dataset, run.ome.manifest.zarr for run.ome.zarr]
    pub(crate) output: Option<PathBuf>,
    /// What stands before the paths of the dataset's files, such as s3://bucket/run.ome.zarr [default: file:// and
    /// where they are now]
    #[arg(long, value_name = "URL")]
    pub(crate) url_prefix: Option<String>,
    /// The Zarr version of the documents in kerchunk.json: 2, which every reader of such files opens, or 3
    #[arg(long, value_name = "2|3", default_value_t = 2, value_parser = within(2_u8..=3))]
    pub(crate) zarr_format: u8,
    /// What is written: documents with manifest.json beside them, documents with the manifest inlined, kerchunk.json
    /// [default: all; manifests of few chunks are inlined, others are not]
    #[arg(long = "form", value_name = "FORM,FORM", value_delimiter = ',')]
    #[arg(value_parser = one_of(ManifestForm::ALL, ManifestForm::name))]
    pub(crate) forms: Vec<ManifestForm>,
    /// Put the manifest into the array's document where the array has at most N chunks
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = number::<u64>(FROM_0))]
    pub(crate) inline: u64,
    /// Replace manifests that are in the way
    #[arg(long)]
    pub(crate) overwrite: bool,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
}
