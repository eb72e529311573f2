//! How single words of the command line become values.

use std::convert::Infallible;
use std::fmt::Display;
use std::iter;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use shardwright::words::quoted;
use shardwright::{Dtype, units};

/// Parses the name of one of a few values, and lists the names in help and completions.
pub(super) fn one_of<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.iter().map(move |&value| name(value))).map(move |text| {
        let found = all.iter().find(|&&value| name(value) == text);
        *found.expect("clap lets only names of these pass")
    })
}

/// One of a few values, or `none` of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OrNone<T>(pub(crate) Option<T>);

/// The same as [`one_of`], with `none` as a further name.
pub(super) fn one_of_or_none<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = OrNone<T>> {
    let names = iter::once("none").chain(all.iter().map(move |&value| name(value)));
    PossibleValuesParser::new(names).map(move |text| OrNone(all.iter().copied().find(|&value| name(value) == text)))
}

/// Names with commas between them. A comma in a name, or a backslash, stands behind a backslash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names(Vec<String>);

impl Names {
    /// Those of several options.
    pub(crate) fn all(options: &[Self]) -> Vec<String> {
        options.iter().flat_map(|names| names.0.iter().cloned()).collect()
    }
}

impl FromStr for Names {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let mut names = vec![String::new()];
        let mut rest = text.chars().peekable();
        while let Some(letter) = rest.next() {
            let escaped = if letter == '\\' { rest.next_if(|next| matches!(next, ',' | '\\')) } else { None };
            match (letter, escaped) {
                (',', _) => names.push(String::new()),
                (letter, escaped) => names.last_mut().expect("there is one").push(escaped.unwrap_or(letter)),
            }
        }
        Ok(Self(names))
    }
}

/// A synthetic camera: `2048x2048xu16@100`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Camera {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) dtype: Dtype,
    pub(crate) fps: Option<f64>,
}

impl Default for Camera {
    fn default() -> Self {
        Self { width: 2048, height: 2048, dtype: Dtype::U16, fps: None }
    }
}

impl FromStr for Camera {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (frame, fps) = match text.split_once('@') {
            Some((frame, fps)) => (frame, Some(frames_per_second(fps)?)),
            None => (text, None),
        };
        let parts: Vec<_> = frame.split('x').collect();
        let [width, height, dtype] = parts[..] else {
            let reads = "a camera reads WIDTHxHEIGHTxDTYPE or WIDTHxHEIGHTxDTYPE@FPS, such as 2048x2048xuint16@100";
            return Err(reads.into());
        };
        let side = |name, digits: &str| match digits.parse() {
            Ok(pixels @ 1..=1_000_000) => Ok(pixels),
            _ => Err(format!("{name} {} is not a number of pixels from 1 to 1000000", quoted(digits))),
        };
        Ok(Self {
            width: side("width", width)?,
            height: side("height", height)?,
            dtype: dtype.parse().map_err(|error: shardwright::Error| error.to_string())?,
            fps,
        })
    }
}

/// How fast frames come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Rate {
    /// As fast as the writer takes them.
    Max,
    /// This many a second.
    Fps(f64),
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" { Ok(Self::Max) } else { frames_per_second(text).map(Self::Fps) }
    }
}

fn frames_per_second(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(fps) if fps.is_finite() && fps > 0.0 => Ok(fps),
        _ => Err(format!("{} is not a number of frames per second above 0", quoted(text))),
    }
}

/// How far neighbours are apart: along y and x, `0.325um`, or along a dimension, `z=2um`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PixelSize {
    /// The dimension; `None`: y and x.
    pub(crate) name: Option<String>,
    pub(crate) value: f64,
    /// The unit's name as UDUNITS-2 spells it.
    pub(crate) unit: &'static str,
}

impl FromStr for PixelSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, size) = match text.split_once('=') {
            Some((name, size)) => (Some(name.trim().to_owned()), size.trim()),
            None => (None, text),
        };
        let split = size.find(|c: char| c.is_alphabetic()).unwrap_or(size.len());
        // "1e-7m" would split at its exponent.
        let split = match size[split..].strip_prefix('e') {
            Some(rest) if rest.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
                split + 1 + rest.find(|c: char| c.is_alphabetic()).unwrap_or(rest.len())
            }
            _ => split,
        };
        let (value, unit) = size.split_at(split);
        let value = match value.trim().parse::<f64>() {
            Ok(value) if value.is_finite() && value > 0.0 => value,
            _ => {
                return Err(format!(
                    "{} is not a length; a number above 0 and a unit are, such as 0.325um",
                    quoted(text)
                ));
            }
        };
        let unit = unit.trim();
        let of_time = || name.as_ref().and_then(|_| units::time_named(unit));
        let unit = units::length_named(unit).or_else(of_time).ok_or_else(|| {
            let known = "possible are pm, nm, um, mm, cm, m, as in 0.325um, and of time s, ms, us, as in t=0.5s";
            match unit {
                "" => format!("{} has no unit of length; {known}", quoted(text)),
                unit => format!("{} is not a known unit of length; {known}", quoted(unit)),
            }
        })?;
        Ok(Self { name, value, unit })
    }
}

/// Where the first element of a dimension is: `x=-12.5`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AxisOrigin {
    pub(crate) name: String,
    pub(crate) translation: f64,
}

impl FromStr for AxisOrigin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{} is not a dimension's name and a number, such as x=-12.5", quoted(text));
        let (name, number) = text.split_once('=').ok_or_else(wrong)?;
        let translation = number.trim().parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(wrong)?;
        Ok(Self { name: name.trim().to_owned(), translation })
    }
}

/// Parses a number of bytes: `4096`, `64MiB`, `1.5GB`.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("{} is not a number of bytes; possible are 4096, 64MiB, 1.5GiB, 2GB and the like", quoted(text));
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = (text[..split].trim(), text[split..].trim());
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kib" | "k" => 1 << 10,
        "mib" | "m" => 1 << 20,
        "gib" | "g" => 1 << 30,
        "tib" | "t" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(wrong()),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(wrong);
    }
    match number.parse::<f64>() {
        Ok(number) if number >= 0.0 && number * factor as f64 <= 9e15 => Ok((number * factor as f64) as u64),
        _ => Err(wrong()),
    }
}

/// Parses a number; `what` it is to be, for others.
pub(super) fn number<T: FromStr>(what: &'static str) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| text.trim().parse().map_err(|_| format!("{} is not {what}", quoted(text)))
}

/// What [`number`] says of counts.
pub(super) const FROM_0: &str = "a whole number from 0 on";

/// Parses a whole number within bounds.
pub(super) fn within<T: Copy + Display + FromStr + PartialOrd>(
    bounds: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = text.trim().parse().ok().filter(|number| bounds.contains(number));
        let (from, to) = (bounds.start(), bounds.end());
        number.ok_or_else(|| format!("{} is not a whole number from {from} to {to}", quoted(text)))
    }
}

/// Parses one of the numbers of a shape.
pub(super) fn whole(text: &str) -> Result<u64, String> {
    text.trim().parse().map_err(|_| format!("{} is not a whole number; a shape reads 16,256,256", quoted(text)))
}

pub(super) fn positive(text: &str) -> Result<u64, String> {
    match text.trim().parse() {
        Ok(number @ 1..) => Ok(number),
        _ => Err(format!("{} is not a whole number above 0", quoted(text))),
    }
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    parsed.ok_or_else(|| format!("{} is not a number of seconds", quoted(text)))
}

pub(super) fn positive_seconds(text: &str) -> Result<Duration, String> {
    let above_0 = |duration: &Duration| !duration.is_zero();
    seconds(text).ok().filter(above_0).ok_or_else(|| format!("{} is not a number of seconds above 0", quoted(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cameras_are_width_height_type_and_perhaps_speed() {
        let orca: Camera = "4432x2368xu16@115.5".parse().unwrap();
        assert_eq!(orca, Camera { width: 4432, height: 2368, dtype: Dtype::U16, fps: Some(115.5) });
        assert_eq!("64x32xf32".parse::<Camera>().unwrap().fps, None);
        for wrong in ["", "64", "64x64", "64x64xu17", "0x64xu8", "64x-1xu8", "64x64xu8@", "64x64xu8@0", "64x64xu8@nan"]
        {
            assert!(wrong.parse::<Camera>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn sizes_have_binary_and_decimal_units() {
        let good = [
            ("4096", 4096),
            ("1GiB", 1 << 30),
            ("1.5GiB", 3 << 29),
            ("2GB", 2_000_000_000),
            ("64 MiB", 64 << 20),
            ("3kb", 3000),
            ("1k", 1024),
            ("0", 0),
        ];
        for (text, expected) in good {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for wrong in ["", "GiB", "-1", "1XB", "1e30", "99999999999999999999", "99999999999GiB", "nan"] {
            assert!(bytes(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn rates_are_numbers_or_max() {
        assert_eq!("max".parse(), Ok(Rate::Max));
        assert_eq!("99.5".parse(), Ok(Rate::Fps(99.5)));
        assert!("0".parse::<Rate>().is_err() && "-3".parse::<Rate>().is_err() && "inf".parse::<Rate>().is_err());
    }

    #[test]
    fn places_are_names_and_numbers() {
        let place = |text: &str| text.parse::<AxisOrigin>().map(|place| (place.name, place.translation));
        assert_eq!(place("x=-12.5"), Ok(("x".to_owned(), -12.5)));
        assert_eq!(place("z = 1e3"), Ok(("z".to_owned(), 1000.0)));
        for wrong in ["", "x", "x=", "x=far", "x=inf", "3"] {
            assert!(place(wrong).unwrap_err().contains("x=-12.5"), "{wrong:?}");
        }
    }

    #[test]
    fn pixels_have_sizes_with_units() {
        let size = |name: Option<&str>, value, unit| PixelSize { name: name.map(str::to_owned), value, unit };
        for (text, expected) in [
            ("0.325um", size(None, 0.325, "micrometer")),
            ("0.325 µm", size(None, 0.325, "micrometer")),
            ("1e-1um", size(None, 0.1, "micrometer")),
            ("65nm", size(None, 65.0, "nanometer")),
            ("0.01in", size(None, 0.01, "inch")),
            ("z=2um", size(Some("z"), 2.0, "micrometer")),
            ("t = 0.5s", size(Some("t"), 0.5, "second")),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for wrong in ["0.3", "um", "-1um", "3 parsecs", "0um", "0.5s", "z=", "z=2"] {
            assert!(wrong.parse::<PixelSize>().is_err(), "{wrong}");
        }
    }
}
