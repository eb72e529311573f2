//! `shardwright manifest`: where a dataset's chunks lie, for readers that go by references.

use std::path::{Path, PathBuf};

use shardwright::offline::{ManifestOptions, write_manifest};

use crate::args::Manifest;
use crate::failure::Failure;
use crate::report::{decimal, say};

/// Runs the command.
pub(crate) fn run(args: &Manifest) -> Result<(), Failure> {
    let out = args.output.clone().unwrap_or_else(|| beside(&args.path));
    let options = ManifestOptions {
        url_prefix: args.url_prefix.clone(),
        inline_chunks: args.inline,
        kerchunk_zarr_format: args.zarr_format,
        overwrite: args.overwrite,
    };
    let summary = write_manifest(&args.path, &out, &options)?;
    if args.json {
        let mut json = serde_json::to_value(&summary).expect("a summary holds only numbers and strings");
        json["path"] = serde_json::json!(out);
        return say(&format!("{json}\n"));
    }
    summary.notes.iter().for_each(|note| eprintln!("note: {note}"));
    say(&format!(
        "{}: {} chunks of {} arrays, {}; {} inlined\n",
        out.display(),
        summary.chunks,
        summary.arrays,
        decimal(summary.bytes),
        summary.arrays_inlined,
    ))
}

/// `run.ome.zarr` has its manifests in `run.ome.manifest.zarr`.
fn beside(path: &Path) -> PathBuf {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    path.with_file_name(format!("{}.manifest.zarr", name.strip_suffix(".zarr").unwrap_or(&name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_stand_beside_their_dataset() {
        assert_eq!(beside(Path::new("/no/run.ome.zarr")), Path::new("/no/run.ome.manifest.zarr"));
        assert_eq!(beside(Path::new("/no/run")), Path::new("/no/run.manifest.zarr"));
    }
}
