//! The compressions of TIFF: each fills a buffer of the size that is known beforehand, or says why it can't.

use weezl::BitOrder;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::super::why::Why;
use super::page::{PixelEncoding, TiffCompression, YCBCR};

/// How long a strip may be of which only the first part is needed.
const LONGER_BYTES_MAX: usize = 256 << 20;

/// Fills `out`. Bytes beyond it, as some writers leave in a last strip, are not looked at.
pub(crate) fn decompress(compression: TiffCompression, packed: &[u8], out: &mut [u8]) -> Result<(), Why> {
    let got = match compression {
        TiffCompression::Lzw => lzw(packed, out)?,
        TiffCompression::Deflate => deflate(packed, out)?,
        TiffCompression::PackBits => pack_bits(packed, out),
        TiffCompression::Zstd => zstd(packed, out)?,
        TiffCompression::None | TiffCompression::Jpeg => unreachable!("these are read elsewhere"),
    };
    if got < out.len() {
        return Err(format!("it holds {got} bytes, but {} are needed", out.len()).into());
    }
    Ok(())
}

fn lzw(packed: &[u8], out: &mut [u8]) -> Result<usize, Why> {
    if packed.starts_with(&[0, 1]) {
        return Why::unread("it is LZW of before TIFF 6.0, whose bits come in the other order; that is not read here");
    }
    let mut decoder = weezl::decode::Decoder::with_tiff_size_switch(BitOrder::Msb, 8);
    let (mut read, mut written) = (0, 0);
    loop {
        let step = decoder.decode_bytes(&packed[read..], &mut out[written..]);
        read += step.consumed_in;
        written += step.consumed_out;
        match step.status {
            Ok(weezl::LzwStatus::Ok) if written < out.len() && step.consumed_in + step.consumed_out > 0 => {}
            Ok(_) => return Ok(written),
            Err(error) => return Err(format!("LZW: {error}").into()),
        }
    }
}

fn deflate(packed: &[u8], out: &mut [u8]) -> Result<usize, String> {
    use libdeflater::DecompressionError::InsufficientSpace;
    let mut decompressor = libdeflater::Decompressor::new();
    match decompressor.zlib_decompress(packed, out) {
        Ok(got) => Ok(got),
        // A last strip that is as long as the others: twice the room is for all of them.
        Err(InsufficientSpace) => longer(out, |room| decompressor.zlib_decompress(packed, room).ok())
            .ok_or_else(|| format!("Deflate: it holds more than {} bytes", out.len())),
        Err(error) => Err(format!("Deflate: {error}")),
    }
}

fn zstd(packed: &[u8], out: &mut [u8]) -> Result<usize, String> {
    match zstd_safe::decompress(out, packed) {
        Ok(got) => Ok(got),
        Err(code) => longer(out, |room| zstd_safe::decompress(room, packed).ok())
            .ok_or_else(|| format!("Zstandard: {}", zstd_safe::get_error_name(code))),
    }
}

/// Decompresses what is longer than expected with more and more room, within reason, and keeps what was expected.
fn longer(out: &mut [u8], mut decompress: impl FnMut(&mut [u8]) -> Option<usize>) -> Option<usize> {
    let doublings = (1..=10).take_while(|doublings| out.len() << doublings <= LONGER_BYTES_MAX);
    let found = doublings.into_iter().find_map(|doublings| {
        let mut room = vec![0; out.len() << doublings];
        let got = decompress(&mut room)?;
        room.truncate(got);
        Some(room)
    })?;
    let count = out.len().min(found.len());
    out[..count].copy_from_slice(&found[..count]);
    Some(count)
}

/// TIFF 6.0, section 9.
fn pack_bits(packed: &[u8], out: &mut [u8]) -> usize {
    let (mut rest, mut written) = (packed, 0);
    while let [head, tail @ ..] = rest
        && written < out.len()
    {
        let room = out.len() - written;
        let count = match *head {
            128 => {
                rest = tail;
                continue;
            }
            head @ 0..128 => {
                let there = tail.len().min(usize::from(head) + 1);
                let count = there.min(room);
                out[written..written + count].copy_from_slice(&tail[..count]);
                rest = &tail[there..];
                count
            }
            head => {
                let [value, tail @ ..] = tail else { break };
                let count = (257 - usize::from(head)).min(room);
                out[written..written + count].fill(*value);
                rest = tail;
                count
            }
        };
        written += count;
    }
    written
}

/// A JPEG image with its tables elsewhere, of which `out` takes the first rows. Pixels of YCbCr become RGB.
pub(crate) fn jpeg(packed: &[u8], form: &PixelEncoding, out: &mut [u8]) -> Result<(), String> {
    let wrong = |why: String| format!("JPEG: {why}");
    let whole = match form.jpeg_tables.as_deref() {
        // Both begin and end with markers of their own; in between they make one image.
        Some([0xff, 0xd8, tables @ .., 0xff, 0xd9]) if packed.len() > 2 => {
            [&[0xff, 0xd8], tables, &packed[2..]].concat()
        }
        _ => packed.to_vec(),
    };
    let mut decoder = JpegDecoder::new(ZCursor::new(whole));
    decoder.decode_headers().map_err(|error| wrong(error.to_string()))?;
    let info = decoder.info().ok_or_else(|| wrong("it has no header".into()))?;
    let stored = decoder.input_colorspace().ok_or_else(|| wrong("it has no colours".into()))?;
    let shown = match form.samples_together() {
        3 if form.photometric == YCBCR => ColorSpace::RGB,
        // What the page calls RGB is stored as that, whatever the decoder takes three components for.
        _ => stored,
    };
    let [width, height] = [info.width, info.height].map(u64::from);
    let (samples, rows) = (form.samples_together(), out.len() as u64 / form.row_bytes());
    if width != form.piece_width || height < rows || shown.num_components() as u64 != samples {
        return Err(wrong(format!(
            "it is {width} x {height} of {} samples, but {} x {rows} of {samples} are needed",
            shown.num_components(),
            form.piece_width
        )));
    }
    decoder.set_options(DecoderOptions::default().jpeg_set_out_colorspace(shown));
    let pixels = decoder.decode().map_err(|error| wrong(error.to_string()))?;
    let pixels = pixels.get(..out.len()).ok_or_else(|| wrong("it ends too early".into()))?;
    out.copy_from_slice(pixels);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_copies_of_packbits() {
        let packed = [0xfe, 0xaa, 2, 0x80, 0, 0x2a, 0x80, 0xfd, 0xaa, 3, 1, 2, 3, 4, 0xf7, 0x55];
        let mut out = [0; 24];
        let expected = [vec![0xaa; 3], vec![0x80, 0, 0x2a], vec![0xaa; 4], vec![1, 2, 3, 4], vec![0x55; 10]].concat();
        assert_eq!(pack_bits(&packed, &mut out), 24);
        assert_eq!(out[..], expected);
        assert_eq!(pack_bits(&packed[..11], &mut out), 11);
        assert_eq!(pack_bits(&[0xfe], &mut out), 0);
    }

    #[test]
    fn what_is_too_short_or_broken_is_refused() {
        for compression in
            [TiffCompression::Lzw, TiffCompression::Deflate, TiffCompression::PackBits, TiffCompression::Zstd]
        {
            for packed in [&[][..], &[7; 5], &[0x80, 0x0b, 0x60], &[0x78, 0x9c, 1]] {
                let refused = decompress(compression, packed, &mut [0; 100]).unwrap_err();
                assert!(!refused.to_string().is_empty(), "{compression:?}");
            }
        }
    }

    #[test]
    fn a_strip_longer_than_needed_gives_what_is_needed() {
        let values: Vec<u8> = (0..200).collect();
        let mut zlib = vec![0; 1000];
        let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
        let length = compressor.zlib_compress(&values, &mut zlib).unwrap();
        let mut zstd = vec![0; 1000];
        let zstd_length = zstd_safe::compress(&mut zstd[..], &values, 1).unwrap();
        for (compression, packed) in
            [(TiffCompression::Deflate, &zlib[..length]), (TiffCompression::Zstd, &zstd[..zstd_length])]
        {
            let mut out = [0; 70];
            decompress(compression, packed, &mut out).unwrap();
            assert_eq!(out[..], values[..70], "{compression:?}");
        }
    }
}
