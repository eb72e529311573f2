//! A plate of wells.

use serde::{Deserialize, Serialize};

/// A plate, whose wells hold the images of a [`Dataset`](crate::Dataset).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plate {
    /// Shown by viewers.
    pub name: Option<String>,
    /// The names of all rows, from above, written to or not: letters and digits.
    pub rows: Vec<String>,
    /// Those of all columns, from the left.
    pub columns: Vec<String>,
    /// The acquisitions that images are part of, if it has several. An image says which with
    /// [`Config::plate_acquisition`](crate::Config::plate_acquisition).
    pub acquisitions: Vec<PlateAcquisition>,
}

/// One of several acquisitions of a plate.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlateAcquisition {
    /// A number that no other acquisition of the plate has.
    pub id: u64,
    /// Shown by viewers.
    pub name: Option<String>,
    /// What it was about.
    pub description: Option<String>,
    /// When it began and ended, in seconds since 1970.
    pub start_time: Option<u64>,
    /// See `start_time`.
    pub end_time: Option<u64>,
}

impl Plate {
    /// A plate whose rows are named A, B, …, Z, AA, … and its columns 1, 2, …: 8 and 12 of them for 96 wells.
    pub fn new(rows: usize, columns: usize) -> Self {
        Self {
            rows: (0..rows).map(letters).collect(),
            columns: (1..=columns).map(|column| column.to_string()).collect(),
            ..Self::default()
        }
    }

    /// Sets the name.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }

    /// Adds an acquisition.
    #[must_use]
    pub fn acquisition(mut self, id: u64, name: &str) -> Self {
        self.acquisitions.push(PlateAcquisition { id, name: Some(name.to_owned()), ..PlateAcquisition::default() });
        self
    }
}

/// As spreadsheets name columns: A to Z, AA to ZZ, …
fn letters(mut number: usize) -> String {
    let mut name = Vec::new();
    loop {
        name.push(char::from(b'A' + (number % 26) as u8));
        match (number / 26).checked_sub(1) {
            Some(next) => number = next,
            None => return name.iter().rev().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_letters_and_columns_numbers() {
        let plate = Plate::new(32, 48);
        assert_eq!((plate.rows[0].as_str(), plate.rows[25].as_str(), plate.rows[31].as_str()), ("A", "Z", "AF"));
        assert_eq!((plate.columns[0].as_str(), plate.columns[47].as_str()), ("1", "48"));
        assert_eq!(letters(26 + 26 * 26), "AAA");
    }
}
