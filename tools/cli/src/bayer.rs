//! The pattern of colours in front of a sensor, which turns with its pixels.

use shardwright::Orientation;

/// The attribute that names the pattern.
pub(crate) const ATTRIBUTE: &str = "bayer_pattern";

/// What a pattern such as RGGB becomes where it begins at `place`, a row and a column, in frames of this many rows and
/// columns that are turned: the colours of the first two pixels in the first two rows.
pub(crate) fn turned(pattern: &str, place: [u64; 2], turn: Orientation, [rows, columns]: [u64; 2]) -> String {
    let sides = if turn.transpose { [columns, rows] } else { [rows, columns] };
    let colors: Vec<char> = pattern.chars().collect();
    let color = |at: [u64; 2]| {
        // From the last row on, rows have the same colours as the first or the second, by their number.
        let flipped = |side: usize, is_flipped: bool| if is_flipped { sides[side] + 1 + at[side] } else { at[side] };
        let (y, x) = (flipped(0, turn.flip.has_rows()), flipped(1, turn.flip.has_columns()));
        let (row, column) = if turn.transpose { (x, y) } else { (y, x) };
        // The pattern repeats with every other pixel: as far behind its beginning as in front of it.
        colors[((row ^ place[0]) % 2 * 2 + (column ^ place[1]) % 2) as usize]
    };
    [[0, 0], [0, 1], [1, 0], [1, 1]].map(color).iter().collect()
}

#[cfg(test)]
mod tests {
    use shardwright::Flip;

    use super::*;

    #[test]
    fn patterns_turn_with_their_pixels() {
        let flip = |flip| Orientation { flip, ..Orientation::default() };
        let cases = [
            (Orientation::default(), [4, 6], "RGGB"),
            (flip(Flip::Rows), [4, 6], "GBRG"),
            (flip(Flip::Columns), [4, 6], "GRBG"),
            (flip(Flip::Both), [4, 6], "BGGR"),
            // An odd number of rows begins and ends with the same colours.
            (flip(Flip::Rows), [5, 6], "RGGB"),
            (Orientation::quarter_turns(1), [4, 6], "GBRG"),
            (Orientation::quarter_turns(1), [4, 5], "RGGB"),
            (Orientation::quarter_turns(3), [4, 6], "GRBG"),
            (Orientation { transpose: true, ..Orientation::default() }, [4, 6], "RGGB"),
        ];
        for (turn, sides, expected) in cases {
            assert_eq!(turned("RGGB", [0, 0], turn, sides), expected, "{turn:?} of {sides:?}");
        }
        assert_eq!(turned("GRBG", [0, 0], Orientation { transpose: true, ..Orientation::default() }, [4, 4]), "GBRG");
    }

    #[test]
    fn patterns_that_begin_within_the_frame_are_told_from_its_first_pixel_on() {
        let places = [([0, 0], "RGGB"), ([2, 4], "RGGB"), ([0, 1], "GRBG"), ([3, 0], "GBRG"), ([1, 1], "BGGR")];
        for (place, expected) in places {
            assert_eq!(turned("RGGB", place, Orientation::default(), [9, 9]), expected, "{place:?}");
        }
        let flip = Orientation { flip: Flip::Rows, ..Orientation::default() };
        assert_eq!(turned("RGGB", [1, 0], flip, [4, 6]), "RGGB");
    }
}
