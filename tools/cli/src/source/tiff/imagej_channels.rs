//! How ImageJ shows channels: fields of its own in the first page's directory.
//!
//! ```text
//! field 50838   u32 bytes of the header, u32 bytes of each entry
//! field 50839   "IJIJ" | for each kind, 4 letters and u32 how many entries it has | the entries of all kinds
//!               "rang"  two f64 a channel: the values that are black and full colour
//!               "luts"  an entry a channel: 256 bytes of red, of green and of blue
//! ```
//!
//! In files of little-endian order, the letters stand the other way round. Source: ImageJ, `ij/io/TiffDecoder.java`.

use shardwright::Channel;

use super::super::recording::named_channel;
use super::ifd::{ByteOrder, Ifd, TiffBytes};
use super::page::tag;

const LUT_BYTES: usize = 3 * 256;
/// Of all entries: labels of slices, and what is drawn on them.
const ENTRIES_MAX: u64 = 1 << 16;

/// Colours and windows of channels; nothing where the fields are missing or broken.
pub(super) fn read(bytes: &mut TiffBytes, ifd: &Ifd, order: ByteOrder) -> Vec<Channel> {
    let lengths = ifd.numbers(bytes, tag::IMAGEJ_LENGTHS, ENTRIES_MAX).unwrap_or_default();
    let data = ifd.bytes(bytes, tag::IMAGEJ_DATA).ok().flatten().unwrap_or_default();
    parse(&lengths, &data, order).unwrap_or_default()
}

fn parse(lengths: &[u64], data: &[u8], order: ByteOrder) -> Option<Vec<Channel>> {
    let (&header_bytes, lengths) = lengths.split_first()?;
    let (header, mut rest) = data.split_at_checked(header_bytes.try_into().ok()?)?;
    let mut lengths = lengths.iter();
    let (mut ranges, mut colors) = (Vec::new(), Vec::new());
    for kind in header.get(4..)?.chunks_exact(8) {
        let name = order.number(&kind[..4]) as u32;
        for _ in 0..order.number(&kind[4..]) {
            let (entry, behind) = rest.split_at_checked((*lengths.next()?).try_into().ok()?)?;
            rest = behind;
            match &name.to_be_bytes() {
                b"rang" => ranges.extend(entry.chunks_exact(16).map(|range| window(range, order))),
                b"luts" => colors.push(color(entry)),
                _ => {}
            }
        }
    }
    let count = ranges.len().max(colors.len());
    ranges.resize(count, None);
    colors.resize(count, String::new());
    Some(ranges.into_iter().zip(colors).map(|(window, color)| Channel { color, window, ..named_channel("") }).collect())
}

fn window(range: &[u8], order: ByteOrder) -> Option<(f64, f64)> {
    let [start, end] = [0, 8].map(|at| f64::from_bits(order.number(&range[at..at + 8])));
    (start.is_finite() && end.is_finite() && start < end).then_some((start, end))
}

/// The colour of the brightest pixels; nothing where these are black, as in a table that is turned round.
fn color(lut: &[u8]) -> String {
    match lut {
        lut if lut.len() != LUT_BYTES => String::new(),
        lut => match [255, 511, 767].map(|at| lut[at]) {
            [0, 0, 0] => String::new(),
            [red, green, blue] => format!("{red:02X}{green:02X}{blue:02X}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_breaks_off_says_nothing() {
        let mut data = b"JIJIgnar".to_vec();
        data.extend(1u32.to_le_bytes());
        data.extend([100.0f64, 200.0].into_iter().flat_map(f64::to_le_bytes));
        let channels = parse(&[12, 16], &data, ByteOrder::Little).unwrap();
        assert_eq!(channels, [Channel { window: Some((100.0, 200.0)), ..named_channel("") }]);
        for end in 0..data.len() {
            assert_eq!(parse(&[12, 16], &data[..end], ByteOrder::Little), None, "{end}");
        }
        assert_eq!(parse(&[u64::MAX, 16], &data, ByteOrder::Little), None);
        assert_eq!(parse(&[], &data, ByteOrder::Little), None);
    }
}
