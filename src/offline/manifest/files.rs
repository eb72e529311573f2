//! The files of manifests, written entry by entry, because one may be larger than memory should be, and what entries
//! say.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::format::index::Range;
use crate::format::{DIMENSION_NAMES, fill_value, manifest, zarr2, zarr3};
use crate::fs::{self as os, document};
use crate::offline::array::Array;
use crate::offline::array::manifest::KERCHUNK;
use crate::offline::hierarchy::below;

pub(super) const MANIFEST: &str = "manifest.json";

/// `0.1.2`: the chunk key encoding `v2`, which manifests and Zarr v2 share.
pub(super) fn key(position: &[u64]) -> String {
    if position.is_empty() {
        return "0".to_owned();
    }
    position.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
}

/// The URLs of the dataset's files.
pub(super) struct Urls<'a> {
    pub(super) root: &'a Path,
    pub(super) prefix: Option<&'a str>,
}

impl Urls<'_> {
    pub(super) fn of(&self, file: &Path) -> Result<String> {
        let text = |path: &Path| {
            let text = path.to_str().map(str::to_owned);
            text.ok_or_else(|| Error::format(path, "a name that is no UTF-8 can't stand in a manifest"))
        };
        match self.prefix {
            // Not escaped: those who open references take what follows the scheme for the path.
            None => Ok(format!("file://{}", text(file)?)),
            Some(prefix) => match file.strip_prefix(self.root) {
                Ok(below) => Ok(format!("{prefix}/{}", text(below)?)),
                Err(_) => Err(Error::format(file, "is not part of the dataset, so a prefix can't lead to it")),
            },
        }
    }
}

/// The manifest of one array, in a file and, as long as there are few chunks, for the document.
pub(super) struct ArrayManifest {
    entries: Entries,
    few: Option<Map<String, Value>>,
    inlined_max: u64,
}

impl ArrayManifest {
    pub(super) fn create(place: &Path, inlined_max: u64) -> Result<Self> {
        create_folder(place)?;
        let few = (inlined_max > 0).then(Map::new);
        Ok(Self { entries: Entries::create(&place.join(MANIFEST))?, few, inlined_max })
    }

    pub(super) fn chunk(&mut self, key: &str, url: &str, range: Range) -> Result<()> {
        self.entries.entry(key, &manifest::chunk(url, range))?;
        if let Some(few) = &mut self.few {
            few.insert(key.to_owned(), manifest::chunk_value(url, range));
            if few.len() as u64 > self.inlined_max {
                self.few = None;
            }
        }
        Ok(())
    }

    /// Writes the document, and says whether the manifest stands in it.
    pub(super) fn finish(self, place: &Path, mut document: Value) -> Result<bool> {
        let path = self.entries.path.clone();
        self.entries.finish()?;
        let inlined = self.few.is_some();
        let manifest = self.few.map_or_else(|| json!("./manifest.json"), Value::Object);
        if inlined {
            fs::remove_file(&path).map_err(|error| Error::io("remove", &path, error))?;
        }
        zarr3::set_manifest(&mut document, &manifest);
        put_document(place, &document)?;
        Ok(inlined)
    }
}

/// A JSON object that is written entry by entry.
struct Entries {
    path: PathBuf,
    out: BufWriter<File>,
    first: bool,
}

impl Entries {
    fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(|error| Error::io("create", path, error))?;
        let mut entries = Self { path: path.to_path_buf(), out: BufWriter::new(file), first: true };
        entries.write(b"{")?;
        Ok(entries)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(|error| Error::io("write", &self.path, error))
    }

    fn entry(&mut self, key: &str, value: &impl Display) -> Result<()> {
        let comma: &[u8] = if std::mem::take(&mut self.first) { b"\n" } else { b",\n" };
        self.write(comma)?;
        let line = format!("{}: {value}", Value::from(key));
        self.write(line.as_bytes())
    }

    /// Closes the object; the file and its name last.
    fn finish(self) -> Result<()> {
        let end = |mut out: BufWriter<File>| {
            out.write_all(b"\n}\n")?;
            out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
        };
        end(self.out).map_err(|error| Error::io("write", &self.path, error))?;
        os::sync_folder_of(&self.path)
    }
}

/// The reference file.
pub(super) struct Kerchunk {
    entries: Entries,
    pub(super) zarr_format: u8,
}

impl Kerchunk {
    pub(super) fn create(path: PathBuf, zarr_format: u8) -> Result<Self> {
        let mut entries = Entries::create(&path)?;
        entries.write(b"\"version\": 1, \"refs\": {")?;
        Ok(Self { entries, zarr_format })
    }

    fn text(&mut self, node: &str, name: &str, document: &Value) -> Result<()> {
        self.entries.entry(&below(node, name), &Value::String(document::render_line(document)))
    }

    pub(super) fn group(&mut self, node: &str, document: &Value) -> Result<()> {
        if self.zarr_format == 3 {
            return self.text(node, zarr3::DOCUMENT, document);
        }
        self.text(node, zarr2::GROUP, &zarr2::group())?;
        self.text(node, zarr2::ATTRIBUTES, document.get("attributes").unwrap_or(&json!({})))
    }

    pub(super) fn array(&mut self, node: &str, array: &Array, document: &Value) -> Result<()> {
        if self.zarr_format == 3 {
            return self.text(node, zarr3::DOCUMENT, document);
        }
        array.refuse_without_bits("zarr2")?;
        let refused = |reason| Error::format(array.path(), reason);
        let zarray = zarr2::array_of_filters(array.metadata()).map_err(refused)?;
        // xarray and VirtualiZarr ask for the dimensions' names.
        let dimensions = array.shape().len();
        let own = array.dimension_names().map(<[String]>::to_vec).unwrap_or_else(|| vec![String::new(); dimensions]);
        let named = |(at, name): (usize, String)| if name.is_empty() { format!("dim_{at}") } else { name };
        let names: Vec<String> = own.into_iter().enumerate().map(named).collect();
        let mut attributes = array.attributes().as_object().cloned().unwrap_or_default();
        attributes.insert(DIMENSION_NAMES.into(), json!(names));
        self.text(node, zarr2::ARRAY, &zarray)?;
        self.text(node, zarr2::ATTRIBUTES, &Value::Object(attributes))
    }

    /// What the reference file can't say of an array's fill value.
    pub(super) fn note_of_fill(&self, array: &Array) -> Option<String> {
        let metadata = array.metadata();
        let note = || fill_value::note_of_bits(metadata.dtype, &metadata.fill, KERCHUNK, "zarr2");
        (self.zarr_format == 2).then(note).flatten()
    }

    pub(super) fn chunk(&mut self, node: &str, key: &str, url: &str, range: Range) -> Result<()> {
        self.entries.entry(&below(node, key), &json!([url, range.offset, range.nbytes]))
    }

    pub(super) fn finish(mut self) -> Result<()> {
        self.entries.write(b"\n}")?;
        self.entries.finish()
    }
}

pub(super) fn create_folder(path: &Path) -> Result<()> {
    os::make_folders(path).map(drop).map_err(|error| Error::io("create", path, error))
}

pub(super) fn put_document(folder: &Path, document: &Value) -> Result<()> {
    os::put(&folder.join(zarr3::DOCUMENT), &document::render(document))
}
