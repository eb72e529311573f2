//! From the bytes of strips and tiles to the pixels of a page, in this machine's order of bytes.

use std::fs::File;
use std::thread;

use super::super::files::read_at;
use super::super::why::Why;
use super::compression::{self, jpeg};
use super::page::{Page, PageData, PixelEncoding, Predictor, StripOrTile, TiffCompression};
use super::values;

/// Pages of fewer bytes are decoded by one thread: starting others would take longer.
const SHARED_BYTES_MIN: usize = 1 << 20;

/// Reads a page, of a planar one the image of one sample, into `out`, which is as large as that: rows without gaps,
/// the samples of a pixel together. Several threads share in what is compressed.
pub(crate) fn read_page(file: &File, page: &Page, sample: u64, out: &mut [u8]) -> Result<(), Why> {
    let form = &*page.form;
    let pieces = match &page.place {
        PageData::Together(offset) => {
            read_at(file, out, offset + sample * out.len() as u64).map_err(|error| reason(&error))?;
            values::to_native(out, form.shape.dtype.size(), form.order);
            return Ok(());
        }
        PageData::Pieces(pieces) => pieces,
    };
    let [across, down] = form.pieces();
    let first = sample * across * down;
    let pieces = &pieces[first as usize..(first + across * down) as usize];
    let element_bytes = form.samples_together() as usize * form.shape.dtype.size();
    let row_bytes = form.shape.width as usize * element_bytes;
    let band_bytes = row_bytes * form.piece_height.min(form.shape.height) as usize;
    let threads = match form.compression {
        TiffCompression::None => 1,
        _ if out.len() < SHARED_BYTES_MIN => 1,
        _ => thread::available_parallelism().map_or(1, usize::from).min(down as usize),
    };
    let bands_each = (down as usize).div_ceil(threads);
    let share = |(index, out): (usize, &mut [u8])| {
        let mut scratch = DecodeScratch::default();
        for (band, row) in out.chunks_mut(band_bytes).zip((index * bands_each) as u64..) {
            let pieces = &pieces[(row * across) as usize..((row + 1) * across) as usize];
            read_band(file, form, row, pieces, band, &mut scratch)?;
        }
        Ok(())
    };
    let mut shares = out.chunks_mut(bands_each * band_bytes).enumerate();
    if threads == 1 {
        return shares.try_for_each(share);
    }
    thread::scope(|scope| {
        let running: Vec<_> = shares.map(|part| scope.spawn(|| share(part))).collect();
        let ended =
            |part: thread::ScopedJoinHandle<_>| part.join().unwrap_or_else(|_| Err("a decoder panicked".into()));
        running.into_iter().try_for_each(ended)
    })
}

/// Memory that a thread uses again for each piece.
#[derive(Default)]
struct DecodeScratch {
    packed: Vec<u8>,
    piece: Vec<u8>,
}

/// Decodes one row of pieces into the rows of the page that they cover.
fn read_band(
    file: &File,
    form: &PixelEncoding,
    row: u64,
    pieces: &[StripOrTile],
    out: &mut [u8],
    scratch: &mut DecodeScratch,
) -> Result<(), Why> {
    let stored = form.piece_bytes(form.stored_rows(row)).ok_or("its sizes overflow")? as usize;
    let DecodeScratch { packed, piece: buffer } = scratch;
    for (piece, column) in pieces.iter().zip(0..) {
        let named = |why: Why| {
            let what = if form.is_tiled { "tile" } else { "strip" };
            why.within(|why| format!("the {what} at {} in row {row} of them: {why}", piece.offset))
        };
        if !form.is_tiled && form.is_plain() {
            decode_piece(file, form, *piece, packed, out).map_err(named)?;
            continue;
        }
        buffer.resize(stored, 0);
        decode_piece(file, form, *piece, packed, buffer).map_err(named)?;
        values::place(form, buffer, column, out);
    }
    Ok(())
}

/// The values of one piece, as they are stored but for compression, predictor and order of bytes.
fn decode_piece(
    file: &File,
    form: &PixelEncoding,
    piece: StripOrTile,
    packed: &mut Vec<u8>,
    out: &mut [u8],
) -> Result<(), Why> {
    if piece.offset == 0 && piece.bytes == 0 {
        // A piece that was never written.
        out.fill(0);
        return Ok(());
    }
    if form.compression == TiffCompression::None {
        if piece.bytes < out.len() as u64 {
            return Err(format!("it has {} bytes, but {} are needed", piece.bytes, out.len()).into());
        }
        read_at(file, out, piece.offset).map_err(|error| reason(&error))?;
        if form.is_reversed {
            values::reverse_bits(out);
        }
    } else {
        let there = file.metadata().map_err(|error| error.to_string())?.len();
        if piece.offset.checked_add(piece.bytes).is_none_or(|end| end > there) {
            return Err("the file ends too early".into());
        }
        packed.resize(piece.bytes as usize, 0);
        read_at(file, packed, piece.offset).map_err(|error| reason(&error))?;
        if form.is_reversed && form.compression != TiffCompression::Jpeg {
            values::reverse_bits(packed);
        }
        match form.compression {
            TiffCompression::Jpeg => jpeg(packed, form, out)?,
            other => compression::decompress(other, packed, out)?,
        }
    }
    undo(form, out);
    Ok(())
}

/// Undoes the predictor and the order of bytes.
fn undo(form: &PixelEncoding, out: &mut [u8]) {
    let bytes = match form.bits {
        bits @ (8 | 16 | 32 | 64) => bits as usize / 8,
        _ => return,
    };
    let samples = form.samples_together() as usize;
    match form.predictor {
        Predictor::None => values::to_native(out, bytes, form.order),
        Predictor::Horizontal => {
            values::to_native(out, bytes, form.order);
            out.chunks_exact_mut(form.row_bytes() as usize).for_each(|row| values::add_up(row, bytes, samples));
        }
        Predictor::FloatingPoint => {
            let mut planes = Vec::new();
            for row in out.chunks_exact_mut(form.row_bytes() as usize) {
                values::join_bytes(row, bytes, samples, &mut planes);
            }
        }
    }
}

/// An error of reading in a few words.
pub(crate) fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "the file ends too early".to_owned(),
        _ => error.to_string(),
    }
}
