//! Options of runs that write several images at once, and how their words become values.

use std::str::FromStr;

use clap::Args;
use shardwright::Plate;

use super::values::{one_of, positive};
use crate::failure::Failure;
use shardwright::words::quoted;

/// Which images of a recording of several are replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Series {
    /// The one of this number.
    Number(u64),
    /// All of them, of which the one at this place among them is meant here.
    All(usize),
}

impl FromStr for Series {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("all", _) => Ok(Self::All(0)),
            (_, Ok(number)) => Ok(Self::Number(number)),
            _ => Err(format!("{} is neither the number of an image, counted from 0, nor all", quoted(text))),
        }
    }
}

/// What becomes of frames that are of several places of a sensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MovingRoi {
    /// Each stands at its place in a larger one.
    Pad,
    /// They are taken as they are.
    Ignore,
}

impl MovingRoi {
    pub(super) const ALL: [Self; 2] = [Self::Pad, Self::Ignore];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pad => "pad",
            Self::Ignore => "ignore",
        }
    }
}

/// The rows and columns of a plate: `8x12`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlateSize {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

impl PlateSize {
    pub(crate) fn plate(self) -> Plate {
        Plate::new(self.rows, self.columns)
    }
}

impl FromStr for PlateSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |digits: &str| digits.parse().ok().filter(|number| (1..=1000).contains(number));
        let sizes = text.split_once('x').and_then(|(rows, columns)| Some((number(rows)?, number(columns)?)));
        let wrong = || format!("{} is no plate; one reads ROWSxCOLUMNS, such as 8x12 for 96 wells", quoted(text));
        sizes.map(|(rows, columns)| Self { rows, columns }).ok_or_else(wrong)
    }
}

/// The order in which images get their frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VisitOrder {
    Serial,
    Random,
}

impl VisitOrder {
    const ALL: [Self; 2] = [Self::Serial, Self::Random];

    fn name(self) -> &'static str {
        match self {
            Self::Serial => "serial",
            Self::Random => "random",
        }
    }
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Several images")]
pub(crate) struct ImagesArgs {
    /// Write a plate of so many wells: the recording into each field of each well, all of them at the same time
    #[arg(long, value_name = "ROWSxCOLUMNS")]
    pub(crate) plate: Option<PlateSize>,
    /// With --plate, the fields of each well
    #[arg(long, value_name = "N", default_value = "1", requires = "plate", value_parser = positive)]
    pub(crate) fields: u64,
    /// With --plate or --series all, how often each image is visited; each time it gets as large a part of its frames
    #[arg(long, value_name = "N", default_value = "1", value_parser = positive)]
    pub(crate) visits: u64,
    /// With --plate or --series all, the order of visits: serial, one image after the other and then all of them again,
    /// or random, another order of all images each time, the same at each call
    #[arg(long, value_name = "ORDER", default_value = "serial")]
    #[arg(value_parser = one_of(&VisitOrder::ALL, VisitOrder::name))]
    pub(crate) visit_order: VisitOrder,
}

impl ImagesArgs {
    /// Refuses options that mean nothing to a single image.
    pub(crate) fn refuse_for_one(&self) -> Result<(), Failure> {
        let given = [(self.visits > 1, "--visits"), (self.visit_order != VisitOrder::Serial, "--visit-order")];
        match given.into_iter().find(|(is_given, _)| *is_given) {
            Some((_, option)) => {
                Err(Failure::Usage(format!("{option} belongs to several images, of --plate or --series all")))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plates_are_rows_and_columns() {
        assert_eq!("8x12".parse(), Ok(PlateSize { rows: 8, columns: 12 }));
        for wrong in ["", "8", "8x", "x12", "0x12", "8x12x2", "-8x12", "8x1001"] {
            assert!(wrong.parse::<PlateSize>().unwrap_err().contains("8x12"), "{wrong:?}");
        }
    }

    #[test]
    fn series_are_numbers_or_all() {
        assert_eq!(("3".parse(), "all".parse()), (Ok(Series::Number(3)), Ok(Series::All(0))));
        assert!("-1".parse::<Series>().is_err() && "ALL".parse::<Series>().is_err());
    }
}
