//! The manifest that a run leaves beside its dataset, if that was asked for.

use std::path::Path;
#[cfg(feature = "offline")]
use std::path::PathBuf;

#[cfg(feature = "offline")]
use crate::archive_file::is_archive_name;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::format::rules;
#[cfg(feature = "offline")]
use crate::offline::{ManifestOptions, WriteManifest, check_manifest_place, manifest_path};

/// What is to be written, and where.
#[cfg(feature = "offline")]
pub(crate) struct Manifest {
    dataset: PathBuf,
    out: PathBuf,
    options: ManifestOptions,
}

/// A build that can't read datasets can't describe them either.
#[cfg(not(feature = "offline"))]
pub(crate) enum Manifest {}

fn refused(config: &Config, reason: &str) -> Error {
    let forms: Vec<_> = config.manifest.iter().map(|form| form.name()).collect();
    Error::config("manifest", format_args!("[{}]", forms.join(", ")), reason)
}

fn check_dialect(config: &Config) -> Result<()> {
    if rules(config.dialect).manifests {
        return Ok(());
    }
    let reason = "manifests are Zarr's, and no reader of Zarr takes the shorter chunks at the end of a precomputed \
                  volume; leave this out, or choose another dialect";
    Err(refused(config, reason))
}

impl Manifest {
    /// For an image that has no folder of its own: refuses a manifest. `name`: the image's, in a dataset of several.
    pub(crate) fn refuse(name: Option<&str>, config: &Config) -> Result<()> {
        if config.manifest.is_empty() {
            return Ok(());
        }
        let reason = match name {
            Some(_) => {
                "a manifest describes a dataset as a whole; leave this out, and let `shardwright manifest` write it \
                 when all images are finished"
            }
            None => "a manifest names files, which a storage of the caller's own has none of; leave this out",
        };
        Err(refused(config, reason))
    }
}

#[cfg(feature = "offline")]
impl Manifest {
    /// What `config` asks for the dataset at `path`, which need not be there yet; `None` if nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] where the dialect can't have one; [`Error::Exists`] and [`Error::Conflict`] for what is in
    /// its way.
    pub(crate) fn requested(path: &Path, config: &Config) -> Result<Option<Self>> {
        if config.manifest.is_empty() {
            return Ok(None);
        }
        check_dialect(config)?;
        if is_archive_name(path) {
            let reason = "a manifest names files, and an .ozx is one file; leave this out, or write to a folder";
            return Err(refused(config, reason));
        }
        // The working directory may be another one at the end.
        let dataset = crate::fs::absolute(path)?;
        let out = manifest_path(&dataset);
        let options = ManifestOptions {
            forms: config.manifest.clone(),
            overwrite: config.overwrite,
            ..ManifestOptions::default()
        };
        check_manifest_place(&out, options.overwrite)?;
        Ok(Some(Self { dataset, out, options }))
    }

    /// Writes it, and returns what not every reader will be able to do. `in_place`: whether the dataset has its name
    /// still.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] where it was moved: a manifest goes by names, and another dataset may have this one by now.
    pub(crate) fn write(&self, in_place: bool) -> Result<Vec<String>> {
        if !in_place {
            let reason = "the dataset is finished, but it was moved while it was written, so it has no manifest; let \
                          `shardwright manifest` write it where the dataset is now";
            return Err(Error::conflict(&self.out, reason));
        }
        let fail = |error: Error| {
            Error::format(&self.out, format!("the dataset is finished, but its manifest is not: {error}"))
        };
        let written = WriteManifest::by_its_writer(&self.dataset, Some(&self.out), &self.options)
            .and_then(|writing| writing.run());
        written.map(|summary| summary.notes).map_err(fail)
    }
}

#[cfg(not(feature = "offline"))]
impl Manifest {
    /// As in a whole build, where nothing is asked for.
    pub(crate) fn requested(_path: &Path, config: &Config) -> Result<Option<Self>> {
        if config.manifest.is_empty() {
            return Ok(None);
        }
        check_dialect(config)?;
        let reason = "this library was built without the feature offline, which writes manifests; leave this out";
        Err(refused(config, reason))
    }

    pub(crate) fn write(&self, _in_place: bool) -> Result<Vec<String>> {
        match *self {}
    }
}
