//! The pattern of colours in front of a sensor, which turns with its pixels.

use shardwright::Orientation;

/// The attribute that names the pattern.
pub(crate) const ATTRIBUTE: &str = "bayer_pattern";

/// What a pattern such as RGGB becomes where frames of this many rows and columns are turned: the colours of the first
/// two pixels in the first two rows.
pub(crate) fn turned(pattern: &str, turn: Orientation, [rows, columns]: [u64; 2]) -> String {
    let sides = if turn.transpose { [columns, rows] } else { [rows, columns] };
    let colors: Vec<char> = pattern.chars().collect();
    let color = |at: [u64; 2]| {
        // From the last row on, rows have the same colours as the first or the second, by their number.
        let flipped = |side: usize, is_flipped: bool| if is_flipped { sides[side] + 1 + at[side] } else { at[side] };
        let (y, x) = (flipped(0, turn.flip.has_rows()), flipped(1, turn.flip.has_columns()));
        let (row, column) = if turn.transpose { (x, y) } else { (y, x) };
        colors[(row % 2 * 2 + column % 2) as usize]
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
            assert_eq!(turned("RGGB", turn, sides), expected, "{turn:?} of {sides:?}");
        }
        assert_eq!(turned("GRBG", Orientation { transpose: true, ..Orientation::default() }, [4, 4]), "GBRG");
    }
}
