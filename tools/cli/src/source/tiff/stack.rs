//! The pages of one TIFF file, all of which are looked at before anything is written.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::super::recording::CameraRegion;
use super::super::why::{Why, cannot, refused};
use super::ifd::{Ifd, TiffBytes, TiffHeader};
use super::imagej_channels;
use super::page::{Page, tag};
use super::planes::PlaneSource;
use super::shaped_description::ShapedDescription;
use shardwright::Channel;
use shardwright::words::{IS, count_that};

use crate::failure::Failure;

/// A page of the file.
pub(crate) struct StackPage {
    /// The page, or why it can't be read. Pages that nobody asks for may be anything.
    pub(crate) page: Result<Page, Box<Why>>,
    /// It is a smaller copy of another page.
    pub(crate) is_reduced: bool,
    /// Where its directory is.
    pub(crate) offset: u64,
    /// What tifffile says of the array that begins here, in a file of which the first page says such.
    pub(crate) shaped: Option<ShapedDescription>,
    /// The part of the sensor that Micro-Manager names for it, if it does for the first page.
    region: Option<CameraRegion>,
}

/// One file.
pub(crate) struct Stack {
    pub(crate) path: PathBuf,
    pub(crate) entries: Vec<StackPage>,
    /// The text of the first page.
    pub(crate) description: String,
    /// Pixels per unit of the first page in x and y.
    pub(crate) resolution: [Option<[f64; 2]>; 2],
    /// The program that made the first page.
    pub(crate) software: String,
    /// What LSM files say of all pages.
    pub(crate) lsm: Option<Vec<u8>>,
    /// How ImageJ shows channels.
    pub(crate) imagej_channels: Vec<Channel>,
    /// Planes that MetaMorph lays behind its one page, and what it says of them.
    pub(crate) metamorph: Option<(u64, Vec<u8>)>,
    pub(crate) has_sub_ifds: bool,
    /// How the first page is to be shown, from 1 to 8; 1: as it is stored.
    pub(crate) orientation: u64,
    /// Why the chain of pages ends where it ends, if it was meant to be longer.
    pub(crate) defect: Option<String>,
    /// Bytes of the file.
    pub(crate) len: u64,
}

/// What MetaMorph says of each plane.
pub(crate) const METAMORPH_PLANE_BYTES: u64 = 24;

/// The number of planes of MetaMorph, where there are several, and the content of its table, as far as it is there.
fn metamorph_planes(bytes: &mut TiffBytes, ifd: &Ifd) -> Option<(u64, Vec<u8>)> {
    let planes = ifd.count(tag::UIC2);
    let at = ifd.place(tag::UIC2).filter(|_| planes > 1)?;
    let table = planes.checked_mul(METAMORPH_PLANE_BYTES).and_then(|length| bytes.at(at, length).ok());
    Some((planes, table.unwrap_or_default().to_vec()))
}

impl Stack {
    /// Opens a file and follows the chain of its pages. A chain that breaks is a defect, as of a recording that was cut
    /// off.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let mut bytes = TiffBytes::open(path).map_err(|error| Failure::io("open", path, &error))?;
        let refuse = |why: String| cannot("read", path, why);
        let header = TiffHeader::read(&mut bytes).map_err(refuse)?;
        let mut stack = Self {
            path: path.to_owned(),
            entries: Vec::new(),
            description: String::new(),
            resolution: [None; 2],
            software: String::new(),
            lsm: None,
            imagej_channels: Vec::new(),
            metamorph: None,
            has_sub_ifds: false,
            orientation: 1,
            defect: None,
            len: bytes.len,
        };
        let (mut next, mut seen) = (header.first, HashSet::new());
        while next != 0 {
            let number = stack.entries.len();
            let is_new = seen.insert(next);
            let ifd =
                if is_new { Ifd::read(&mut bytes, header, next) } else { Err("the chain of pages is a circle".into()) };
            match ifd {
                Ok(ifd) => {
                    stack.add(&mut bytes, &ifd, header, next);
                    next = ifd.next;
                }
                Err(why) if number == 0 => return Err(refuse(format!("page 0: {why}"))),
                Err(why) => {
                    stack.defect = Some(cannot(&format!("read page {number} of"), path, why).to_string());
                    break;
                }
            }
        }
        if stack.entries.is_empty() {
            return Err(refuse("it has no pages".into()));
        }
        if stack.entries.iter().all(|entry| entry.is_reduced) {
            stack.entries.iter_mut().for_each(|entry| entry.is_reduced = false);
        }
        Ok(stack)
    }

    fn add(&mut self, bytes: &mut TiffBytes, ifd: &Ifd, header: TiffHeader, offset: u64) {
        if self.entries.is_empty() {
            self.description = ifd.text(bytes, tag::DESCRIPTION).unwrap_or_default();
            self.resolution = [tag::X_RESOLUTION, tag::Y_RESOLUTION].map(|tag| ifd.fraction(bytes, tag));
            self.orientation = ifd.number(bytes, tag::ORIENTATION).ok().flatten().unwrap_or(1);
            self.software = ifd.text(bytes, tag::SOFTWARE).unwrap_or_default();
            self.lsm = ifd.bytes(bytes, tag::LSM_INFO).ok().flatten();
            self.imagej_channels = imagej_channels::read(bytes, ifd, header.order);
            self.metamorph = metamorph_planes(bytes, ifd);
        }
        self.has_sub_ifds |= ifd.has(tag::SUB_IFDS);
        let before = self.entries.last().and_then(|entry| entry.page.as_ref().ok());
        let page = Page::read(bytes, ifd, header.order, before).map_err(Box::new);
        let is_reduced = ifd.number(bytes, tag::NEW_SUBFILE_TYPE).is_ok_and(|kind| kind.unwrap_or(0) & 1 == 1);
        let says_region = self.entries.first().is_none_or(|first| first.region.is_some());
        let said = says_region.then(|| ifd.text(bytes, tag::MICRO_MANAGER)).flatten();
        let region = said.and_then(|text| CameraRegion::of_metadata(text.as_bytes()));
        let is_shaped = self.entries.first().is_none_or(|first| first.shaped.is_some());
        let texts = if is_shaped { ifd.texts(bytes, tag::DESCRIPTION) } else { Vec::new() };
        // tifffile puts its own behind the caller's.
        let shaped = texts.iter().find_map(|text| ShapedDescription::parse(text));
        self.entries.push(StackPage { page, is_reduced, offset, shaped, region });
    }

    /// The page `number`, counted along the chain, as a plane of the file `file` in a list.
    pub(crate) fn plane(&self, file: usize, number: usize) -> Result<PlaneSource, Failure> {
        let StackPage { page, region, .. } = &self.entries[number];
        match page {
            Ok(page) => {
                Ok(PlaneSource { file: file as u32, number: number as u32, page: page.clone(), region: *region })
            }
            Err(why) => {
                let sentence = |why| format!("page {number} of {}: {why}", self.path.display());
                Err(refused(&self.path, Why::clone(why).within(sentence)))
            }
        }
    }

    /// The numbers of the pages of full resolution.
    pub(crate) fn full_pages(&self) -> impl Iterator<Item = usize> {
        (0..self.entries.len()).filter(|&number| !self.entries[number].is_reduced)
    }

    /// The same of several pages.
    pub(crate) fn planes(&self, numbers: &[usize]) -> Result<Vec<PlaneSource>, Failure> {
        numbers.iter().map(|&number| self.plane(0, number)).collect()
    }

    /// What is to be said of pages that are left out.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let reduced = self.entries.len() - self.full_pages().count();
        if reduced > 0 {
            notes.push(format!(
                "{} not read, as smaller copies of others (thumbnails or a pyramid)",
                count_that(reduced, "page", IS)
            ));
        }
        if let 2..=8 = self.orientation {
            notes.push(format!(
                "the pages are to be shown turned or flipped (TIFF orientation {}); they are kept as they are stored, \
                 which --orientation changes",
                self.orientation
            ));
        }
        if self.has_sub_ifds {
            notes.push("the pages have sub-IFDs, as pyramids have; only the full resolution is read".into());
        }
        notes
    }
}
