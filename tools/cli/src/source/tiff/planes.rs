//! A recording of planes in one or several TIFF files, read plane by plane.

use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};

use shardwright::words::{IS, count, of_number};
use shardwright::{Dtype, Roi};

use super::super::axes::Axes;
use super::super::files::open_regular;
use super::super::recording::{CameraRegion, FrameSource, Recording};
use super::super::regions;
use super::super::why::{Why, cannot};
use super::decode::read_page;
use super::page::{self, Page, Shape};
use crate::args::MovingRoi;
use crate::failure::Failure;

/// Files that are open at a time.
const OPEN_FILES_MAX: usize = 64;

/// Planes of which nothing is there, without a word from any file that would hold them.
const UNKNOWN_PLANES_MAX: u64 = 1 << 20;

/// Where a plane is.
#[derive(Debug, Clone)]
pub(crate) struct PlaneSource {
    /// Its file, by its place in the list.
    pub(crate) file: u32,
    /// The page's number in it.
    pub(crate) number: u32,
    pub(crate) page: Page,
    /// The part of the sensor that it is of, if that is said.
    pub(crate) region: Option<CameraRegion>,
}

/// What a kind of recording finds out before it is read.
pub(crate) struct RecordingFacts {
    pub(crate) axes: Axes,
    pub(crate) files: Vec<PathBuf>,
    /// In the order of the axes, the last one fastest. `None`: the plane is missing.
    pub(crate) planes: Vec<Option<PlaneSource>>,
    pub(crate) notes: Vec<String>,
    pub(crate) defect: Option<String>,
    /// By which numbers `--series` chooses this image and the others that are beside it.
    pub(crate) series: Vec<u64>,
}

impl RecordingFacts {
    /// Room for the planes of `axes`, of which the files hold `there`.
    pub(crate) fn room(axes: &Axes, there: u64) -> Result<Vec<Option<PlaneSource>>, String> {
        let sizes: Vec<_> =
            axes.outer.iter().map(|axis| format!("{} {}", axis.name.to_uppercase(), axis.size)).collect();
        match axes.planes() {
            Some(planes @ 1..) if planes <= UNKNOWN_PLANES_MAX || planes / 2 <= there => {
                Ok(vec![None; planes as usize])
            }
            _ => Err(format!("it claims planes of {}, but there are {there}", sizes.join(", "))),
        }
    }
}

/// The recording.
pub(crate) struct PlaneReader {
    recording: Recording,
    files: RecordingFiles,
    planes: Vec<Option<PlaneSource>>,
    samples: u64,
    /// Planes that follow each other between two channels.
    inner: u64,
    /// The pixels of the plane that was read last, where its samples stand together.
    cached: Option<usize>,
    cache: Vec<u8>,
    /// A plane on its way to its place in a frame.
    part: Vec<u8>,
}

impl PlaneReader {
    /// Checks that all planes agree.
    pub(crate) fn new(found: RecordingFacts) -> Result<Self, Failure> {
        let RecordingFacts { axes, files, planes, mut notes, defect, series } = found;
        let first = planes
            .iter()
            .flatten()
            .next()
            .ok_or_else(|| Failure::Input(format!("none of the recording's {} planes is there", planes.len())))?;
        let (shape, photometric) = (first.page.form.shape, first.page.form.photometric);
        check_agreement(&planes, &files, shape)?;
        let missing = planes.iter().filter(|plane| plane.is_none()).count();
        if missing > 0 {
            notes.push(format!(
                "{missing} of {} {} missing from the recording",
                count(planes.len(), "plane"),
                of_number(&missing, IS)
            ));
        }
        notes.extend(note_of_pixels(&first.page));
        let is_interleaved = planes.iter().flatten().any(|plane| plane.page.form.samples_together() > 1);
        let cache_bytes = if is_interleaved { shape.frame_bytes() * shape.samples } else { 0 };
        if cache_bytes > 4 << 30 {
            return Err(Failure::Input(format!("its pages are {shape}: {cache_bytes} bytes, more than can be read")));
        }
        let (mut recording, inner) = axes.recording(shape, photometric);
        recording.notes = notes;
        recording.defect = defect;
        recording.series = series;
        regions::note(&mut recording, planes.iter().flatten().map(|plane| plane.region));
        Ok(Self {
            recording,
            files: RecordingFiles { paths: files, open: VecDeque::new() },
            planes,
            samples: shape.samples,
            inner,
            cached: None,
            cache: vec![0; cache_bytes as usize],
            part: Vec::new(),
        })
    }

    /// The same as one of several images, which has this name if it has no other.
    pub(crate) fn one_of(mut self, name: &str, series: Vec<u64>, notes: Vec<String>) -> Self {
        self.recording.name.get_or_insert_with(|| name.to_owned());
        self.recording.series = series;
        self.recording.notes.extend(notes);
        self
    }

    /// The plane and the sample of a frame. Frames come as planes do, but each channel is one of `samples` channels.
    fn place(&self, index: u64) -> (usize, u64) {
        let (outer, inner) = (index / self.inner, index % self.inner);
        (((outer / self.samples) * self.inner + inner) as usize, outer % self.samples)
    }

    fn read_plane(&mut self, index: u64, frame: &mut [u8]) -> Result<(), Failure> {
        let (number, sample) = self.place(index);
        let Some(plane) = &self.planes[number] else {
            frame.fill(0);
            return Ok(());
        };
        let file = self.files.get(plane.file)?;
        let path = &self.files.paths[plane.file as usize];
        let wrong = |why: Why| cannot(&format!("read frame {index} from"), path, why);
        let form = &plane.page.form;
        assert_eq!(frame.len() as u64, form.shape.frame_bytes(), "a frame of the recording's size");
        if form.samples_together() == 1 {
            return read_page(&file, &plane.page, sample, frame).map_err(wrong);
        }
        if self.cached != Some(number) {
            self.cached = None;
            read_page(&file, &plane.page, 0, &mut self.cache).map_err(wrong)?;
            self.cached = Some(number);
        }
        pick(&self.cache, self.samples as usize, sample as usize, form.shape.dtype.size(), frame);
        Ok(())
    }
}

/// Compares all planes with the first one.
fn check_agreement(planes: &[Option<PlaneSource>], files: &[PathBuf], first: Shape) -> Result<(), Failure> {
    let odd = planes.iter().flatten().find(|plane| plane.page.form.shape != first);
    let Some(odd) = odd else { return Ok(()) };
    let name = files[odd.file as usize].display();
    let beginning = planes.iter().flatten().next().expect("there is a first one");
    let other = if beginning.file == odd.file {
        format!("page {}", beginning.number)
    } else {
        format!("page {} of {}", beginning.number, files[beginning.file as usize].display())
    };
    Err(Failure::Input(format!(
        "page {} of {name} is {}, but {other} is {first}; all pages must agree",
        odd.number, odd.page.form.shape
    )))
}

/// What the user should know of values that look different elsewhere.
fn note_of_pixels(page: &Page) -> Option<String> {
    let form = &page.form;
    Some(match form.photometric {
        page::WHITE_IS_ZERO => {
            "0 stands for white in this recording; the values are kept as they are stored".to_owned()
        }
        page::PALETTE => {
            "the pixels are indices into a palette of colours; the indices are kept, the palette is not".to_owned()
        }
        _ if form.shape.dtype == Dtype::F32 && form.bits == 16 => {
            "half-precision numbers are written as single-precision ones, without a loss".to_owned()
        }
        _ if form.bits != form.shape.dtype.size() as u64 * 8 => {
            format!("packed samples of {} bits are written as {}", form.bits, form.shape.dtype)
        }
        _ => return None,
    })
}

impl FrameSource for PlaneReader {
    fn recording(&self) -> &Recording {
        &self.recording
    }

    fn is_missing(&self, index: u64) -> bool {
        self.planes[self.place(index).0].is_none()
    }

    fn read(&mut self, index: u64, frame: &mut [u8]) -> Result<(), Failure> {
        let Some(roi) = self.roi(index) else { return self.read_plane(index, frame) };
        let (pixel_bytes, [_, columns]) = (self.recording.dtype.size(), self.recording.sides());
        let mut part = std::mem::take(&mut self.part);
        let read = self.read_plane(index, &mut part);
        if read.is_ok() {
            regions::lay(&part, roi, pixel_bytes, columns as usize, frame);
        }
        self.part = part;
        read
    }

    fn roi(&self, index: u64) -> Option<Roi> {
        let around = self.recording.region.filter(|_| self.recording.is_padded)?;
        let plane = self.planes[self.place(index).0].as_ref()?;
        plane.region.map(|region| regions::place(region, around))
    }

    fn settle_regions(&mut self, wanted: Option<MovingRoi>, input: &Path) -> Result<(), Failure> {
        let part_bytes = self.recording.frame_bytes() as usize;
        regions::settle(&mut self.recording, wanted, input)?;
        if self.recording.is_padded {
            self.part = vec![0; part_bytes];
        }
        Ok(())
    }

    fn held_bytes(&self) -> u64 {
        (self.cache.len() + self.part.len()) as u64
    }

    fn close_files(&mut self) {
        self.files.open.clear();
    }
}

/// One sample of all pixels.
fn pick(pixels: &[u8], samples: usize, sample: usize, bytes: usize, out: &mut [u8]) {
    macro_rules! pick {
        ($bytes:literal) => {{
            let values = pixels.as_chunks::<$bytes>().0.iter().skip(sample).step_by(samples);
            out.as_chunks_mut::<$bytes>().0.iter_mut().zip(values).for_each(|(out, value)| *out = *value);
        }};
    }
    match bytes {
        1 => pick!(1),
        2 => pick!(2),
        4 => pick!(4),
        _ => pick!(8),
    }
}

/// The files of a recording, the last used ones open.
struct RecordingFiles {
    paths: Vec<PathBuf>,
    open: VecDeque<(u32, std::sync::Arc<File>)>,
}

impl RecordingFiles {
    fn get(&mut self, number: u32) -> Result<std::sync::Arc<File>, Failure> {
        if let Some((_, file)) = self.open.iter().find(|(open, _)| *open == number) {
            return Ok(file.clone());
        }
        let path: &Path = &self.paths[number as usize];
        let file = std::sync::Arc::new(open_regular(path).map_err(|error| Failure::io("open", path, &error))?);
        if self.open.len() == OPEN_FILES_MAX {
            self.open.pop_front();
        }
        self.open.push_back((number, file.clone()));
        Ok(file)
    }
}
