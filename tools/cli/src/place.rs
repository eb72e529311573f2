//! Where a command may write: neither over nor into what it reads.

use std::path::{Path, PathBuf};

use shardwright::offline::is_dataset;
use shardwright::refuse_archive_folder;

use crate::failure::{Failure, Fault};

/// Refuses an output that would replace the input before its first frame is read.
pub(crate) fn refuse_over(input: &Path, output: &Path) -> Result<(), Failure> {
    if let (Ok(from), Ok(to)) = (input.canonicalize(), output.canonicalize())
        && from.starts_with(&to)
    {
        return Err(replaces(output));
    }
    Ok(())
}

/// What [`refuse_over`] says.
pub(crate) fn replaces(output: &Path) -> Failure {
    unusable(output, format!("the output {} would replace the input; choose another path", output.display()))
}

/// Refuses an output in the place of a link that leads nowhere, or behind one: it may lead to a disk that is not there
/// now. In a file, nothing can be. Devices, pipes and sockets are no outputs either: a rename would take their names
/// from them.
pub(crate) fn refuse_unusable(output: &Path) -> Result<(), Failure> {
    if let Some(link) = output.ancestors().find(|above| above.is_symlink() && !above.exists()) {
        return Err(Failure::exists(link, "it is a link that leads nowhere: remove it, or choose another path"));
    }
    if let Some(file) = output.ancestors().skip(1).find(|above| above.is_file()) {
        let help = format!("it is a file, so there can't be {} in it: choose another path", output.display());
        return Err(Failure::exists(file, &help));
    }
    refuse_archive_folder("out", output)?;
    match output.metadata() {
        Ok(there) if !there.is_file() && !there.is_dir() => {
            Err(Failure::exists(output, "it is neither a file nor a folder, and never replaced: choose another path"))
        }
        _ => Ok(()),
    }
}

/// The same of an output that is to be a file.
pub(crate) fn refuse_unusable_file(output: &Path) -> Result<(), Failure> {
    match output.is_dir() {
        true => Err(Failure::exists(output, "it is a folder, and never replaced by a file: choose another path")),
        false => refuse_unusable(output),
    }
}

/// The same of an output that is to be a folder.
pub(crate) fn refuse_unusable_folder(output: &Path) -> Result<(), Failure> {
    match output.is_file() {
        true => Err(Failure::exists(output, "it is a file, and never replaced by a folder: choose another path")),
        false => refuse_unusable(output),
    }
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|own| own.eq_ignore_ascii_case(ending))
}

/// Whether a dataset of this name is one file.
pub(crate) fn is_archive_name(path: &Path) -> bool {
    has_ending(path, "ozx")
}

/// Refuses a dataset whose name is that of a file, and which would be a folder.
pub(crate) fn refuse_zip(output: &Path) -> Result<(), Failure> {
    if !has_ending(output, "zip") {
        return Ok(());
    }
    let (output, instead) = (output.display(), output.with_extension("ozx"));
    let why = format!("would be a folder; a dataset in one file ends with .ozx, as {}", instead.display());
    Err(Failure::Usage(format!("{output} {why}")))
}

/// Refuses an output within the dataset of the array that is read.
pub(crate) fn refuse_within_dataset(array: &Path, output: &Path) -> Result<(), Failure> {
    let (Ok(array), Some(folder)) = (array.canonicalize(), folder_of(output)) else { return Ok(()) };
    let is_node = |folder: &&Path| is_dataset(folder);
    let dataset = array.ancestors().skip(1).take_while(is_node).last().unwrap_or(&array);
    if folder.starts_with(dataset) {
        let (told, dataset) = (output.display(), dataset.display());
        let message = format!("{told}: lies in {dataset}, which is read; choose a path beside it");
        return Err(unusable(output, message));
    }
    Ok(())
}

/// Refuses an output within any dataset: it would be a stray file there, or take the place of one of its own.
pub(crate) fn refuse_in_dataset(output: &Path) -> Result<(), Failure> {
    let folder = folder_of(output);
    match folder.iter().flat_map(|folder| folder.ancestors()).find(|above| is_dataset(above)) {
        Some(dataset) => {
            let (told, dataset) = (output.display(), dataset.display());
            let reason = "whose readers would stumble over it; choose a path beside that";
            Err(unusable(output, format!("{told}: lies in the dataset {dataset}, {reason}")))
        }
        None => Ok(()),
    }
}

/// An output that can't be there, whatever is there now.
fn unusable(output: &Path, message: String) -> Failure {
    Failure::Known { fault: Fault::Usage, message, path: Some(output.to_path_buf()) }
}

/// Whether a path leads to the folders in which an output is to be made.
pub(crate) fn is_around(path: &Path, output: &Path) -> bool {
    folder_of(output).is_some_and(|folder| path.canonicalize().is_ok_and(|path| folder.starts_with(path)))
}

/// Refuses a folder for other things that is, or lies in, a dataset.
pub(crate) fn refuse_dataset(folder: &Path) -> Result<(), Failure> {
    let Ok(folder) = folder.canonicalize() else { return Ok(()) };
    match folder.ancestors().find(|above| is_dataset(above)) {
        Some(dataset) => {
            let (folder, dataset) = (folder.display(), dataset.display());
            Err(Failure::Usage(format!("{folder}: {dataset} is a dataset; choose a folder beside it")))
        }
        None => Ok(()),
    }
}

/// The same, or the working directory.
pub(crate) fn folder_there(output: &Path) -> PathBuf {
    folder_of(output).unwrap_or_else(|| PathBuf::from("."))
}

/// The folder in which something is to be made, as far as it is there already.
fn folder_of(output: &Path) -> Option<PathBuf> {
    let there = |folder: &Path| if folder.as_os_str().is_empty() { Path::new(".") } else { folder }.canonicalize().ok();
    output.ancestors().skip(1).find_map(there)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_input_is_never_the_output() {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("in.tif");
        std::fs::write(&input, b"II").unwrap();
        assert!(refuse_over(&input, &input).is_err());
        assert!(refuse_over(&input, folder.path()).is_err());
        assert!(refuse_over(&input, &folder.path().join("out.zarr")).is_ok());
    }

    #[test]
    fn a_folder_in_a_dataset_is_for_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("run.zarr/0/c")).unwrap();
        std::fs::write(folder.path().join("run.zarr/zarr.json"), "{}").unwrap();
        for inside in ["run.zarr", "run.zarr/0/c"] {
            let refused = refuse_dataset(&folder.path().join(inside)).unwrap_err().to_string();
            assert!(refused.contains("run.zarr is a dataset"), "{refused}");
        }
        refuse_dataset(folder.path()).unwrap();
    }

    #[test]
    fn nothing_is_made_in_a_dataset_that_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let array = folder.path().join("run.zarr/0");
        std::fs::create_dir_all(&array).unwrap();
        for node in ["run.zarr", "run.zarr/0"] {
            std::fs::write(folder.path().join(node).join("zarr.json"), "{}").unwrap();
        }
        for inside in ["run.zarr/1", "run.zarr/a/b/c", "run.zarr/0/c", "run.zarr/../run.zarr/copy"] {
            let refused = refuse_within_dataset(&array, &folder.path().join(inside)).unwrap_err().to_string();
            assert!(refused.contains("which is read; choose a path beside it"), "{refused}");
        }
        for beside in ["run.zarr", "copy.zarr", "new/copy.zarr"] {
            refuse_within_dataset(&array, &folder.path().join(beside)).unwrap();
        }
    }
}
