//! ImageJ's hyperstacks: lines of `key=value` in the first page's description.
//!
//! Source: ImageJ, `ij/io/FileSaver.java` (what is written) and `TiffDecoder.java` (stacks beyond 4 GB have one page).

use super::super::axes::{Axes, OuterAxis, Step};
use super::pages::{behind_first, in_order};
use super::planes::RecordingFacts;
use super::stack::Stack;
use crate::failure::Failure;
use shardwright::units;
use shardwright::words::quoted;

/// What a description says.
#[derive(Debug, PartialEq)]
pub(crate) struct ImageJ {
    images: u64,
    channels: u64,
    slices: u64,
    frames: u64,
    /// The fastest axis first.
    order: String,
    /// Of a pixel in x, y and z.
    units: [Option<&'static str>; 3],
    spacing: Option<f64>,
    time_step: Option<Step>,
    /// Units that nobody knows here.
    unknown: Vec<String>,
}

impl ImageJ {
    /// Understands a description; `None` if it is not ImageJ's.
    pub(crate) fn parse(description: &str) -> Option<Self> {
        if !description.starts_with("ImageJ=") && !description.starts_with("SCIFIO=") {
            return None;
        }
        let value = |key: &str| {
            let line = description.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='));
            line.map(str::trim)
        };
        let count = |key| value(key).and_then(|text| text.parse().ok()).filter(|&count| count > 0).unwrap_or(1);
        let number = |key| value(key).and_then(|text| text.parse().ok()).filter(|&number: &f64| number.is_finite());
        let length = |key: &str| value(key).map(plain).and_then(|text| units::length_named(&text));
        let time_of = |text: &str| units::time_named(&plain(text));
        let unit = length("unit");
        let step = number("finterval").or_else(|| number("fps").map(|fps| 1.0 / fps));
        let time_unit = value("tunit").map_or(Some("second"), time_of);
        let unknown = ["unit", "yunit", "zunit"].into_iter().filter(|key| length(key).is_none());
        let unknown = unknown.chain(Some("tunit").filter(|_| step.is_some() && time_unit.is_none()));
        // A pixel is no unit, and whoever says so says nothing.
        let says = |text: &String| !["", "pixel", "pixels"].contains(&&**text);
        let unknown = unknown.filter_map(value).map(plain).filter(says).collect();
        Some(Self {
            images: count("images"),
            channels: count("channels"),
            slices: count("slices"),
            frames: count("frames"),
            order: value("order").unwrap_or("czt").to_ascii_lowercase(),
            units: [unit, length("yunit").or(unit), length("zunit").or(unit)],
            spacing: number("spacing").map(f64::abs),
            time_step: step.filter(|&step| step > 0.0 && step.is_finite()).zip(time_unit),
            unknown,
        })
    }

    /// The planes of the file, each in its place.
    pub(crate) fn find(mut self, stack: Stack) -> Result<RecordingFacts, Failure> {
        let first = stack.plane(0, 0)?;
        let samples = first.page.form.shape.samples;
        if samples > 1 && self.channels == samples {
            // Bio-Formats counts the samples of a pixel as channels.
            self.channels = 1;
        }
        let samples_of = |of: u64| if samples > 1 && of == 1 { samples } else { of };
        let pages = stack.full_pages().count() as u64;
        let product =
            [self.channels, self.slices, self.frames].iter().fold(1u64, |all, &size| all.saturating_mul(size));
        let is_virtual = pages == 1 && product.max(self.images) > 1;
        let planes = if is_virtual { product.max(self.images) } else { pages };
        let axes = self.axes(&stack, product, planes);
        let is_known = axes.planes() == Some(product);
        let mut found = match is_virtual {
            true => behind_first(stack, axes, planes)?,
            false => in_order(stack, axes)?,
        };
        found.notes.extend(self.unknown.iter().map(|unit| {
            format!("ImageJ's unit {} is none that OME-Zarr has, and distances in it are not taken along", quoted(unit))
        }));
        if !is_known {
            found.notes.push(format!(
                "ImageJ says that there are {} channels, {} slices and {} frames, but there are {planes} planes; they \
                 become one time axis",
                samples_of(self.channels),
                self.slices,
                self.frames
            ));
        }
        Ok(found)
    }

    fn axes(&self, stack: &Stack, product: u64, planes: u64) -> Axes {
        let size = |pixels_per_unit: Option<[f64; 2]>, unit: Option<&'static str>| {
            let [pixels, units] = pixels_per_unit?;
            // A quotient of the quotient would be one digit off: 40 pixels to 13 micrometers.
            Some(units / pixels).filter(|size| *size > 0.0 && size.is_finite()).zip(unit)
        };
        let [x_step, y_step] = [0, 1].map(|side| size(stack.resolution[side], self.units[side]));
        let z_step = self.spacing.filter(|&spacing| spacing > 0.0).zip(self.units[2]);
        // More planes than the product are one axis; fewer are the rest of a file that was cut off.
        let is_known = planes == product || (planes < product && stack.defect.is_some());
        let outer = if is_known {
            let axis = |letter| match letter {
                'c' => OuterAxis::new("c", self.channels),
                'z' => OuterAxis::new("z", self.slices).step(z_step),
                _ => OuterAxis::new("t", self.frames).step(self.time_step),
            };
            let is_order = ["czt", "ctz", "zct", "ztc", "tcz", "tzc"].contains(&self.order.as_str());
            let order = if is_order { self.order.as_str() } else { "czt" };
            order.chars().rev().map(axis).collect()
        } else {
            vec![OuterAxis::new("t", planes)]
        };
        let channels = stack.imagej_channels.clone();
        Axes { outer, y_step, x_step, channels, ..Axes::default() }
    }
}

/// A text without Java's `\u00B5`.
fn plain(text: &str) -> String {
    text.replace("\\u00B5", "\u{b5}").replace("\\u00b5", "\u{b5}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_distances_are_read() {
        let text = "ImageJ=1.53t\nimages=30\nchannels=2\nslices=5\nframes=3\nhyperstack=true\nunit=\\u00B5m\n\
                    finterval=0.5\nspacing=-2.0\nloop=false\n";
        let imagej = ImageJ::parse(text).unwrap();
        assert_eq!((imagej.images, imagej.channels, imagej.slices, imagej.frames), (30, 2, 5, 3));
        assert_eq!(imagej.units, [Some("micrometer"); 3]);
        assert_eq!((imagej.spacing, imagej.time_step), (Some(2.0), Some((0.5, "second"))));
        assert_eq!(ImageJ::parse("a stack"), None);
        let odd = ImageJ::parse("ImageJ=1\nimages=-3\nframes=many\nfps=0\nunit=furlong\ntunit=ms\n").unwrap();
        assert_eq!((odd.images, odd.frames, odd.units, odd.time_step), (1, 1, [None; 3], None));
        assert_eq!(odd.unknown, ["furlong"]);
        let inches = ImageJ::parse("ImageJ=1\nunit=inch\nzunit=pixel\n").unwrap();
        assert_eq!((inches.units, inches.unknown), ([Some("inch"); 3], Vec::new()));
    }
}
