//! The literals of a block (RFC 8878, section 3.1.1.3.1).

const RAW: u8 = 0;
const RLE: u8 = 1;
const COMPRESSED: u8 = 2;
const TREELESS: u8 = 3;

/// Streams of literals where there are several, all but the last of which have a quarter of the bytes, rounded up.
pub(super) const STREAMS: usize = 4;
/// Before the streams, the lengths of all but the last, as u16.
const JUMP_BYTES: usize = 2 * (STREAMS - 1);
/// The most bytes of what stands before and behind the streams, but for the description of a code: the header, the
/// lengths, the number of sequences, and the bits that streams are filled up with.
pub(super) const HEADERS_BYTES_MAX: usize = 5 + JUMP_BYTES + 1 + STREAMS;
/// More are always cut into [`STREAMS`].
pub(super) const SINGLE_STREAM_MAX: usize = 255;

/// The streams that this many bytes are cut into.
pub(super) fn cut(literals: &[u8]) -> impl ExactSizeIterator<Item = &[u8]> {
    let streams = if literals.len() > SINGLE_STREAM_MAX { STREAMS } else { 1 };
    literals.chunks(literals.len().div_ceil(streams).max(1))
}

/// Writes literals that were packed into one stream or four, after the description of their code, or by the code of the
/// block before. Returns the bytes. `None`: no room.
pub(super) fn compressed(
    literals: usize,
    description: Option<&[u8]>,
    streams: &[&[u8]],
    target: &mut [u8],
) -> Option<usize> {
    let described = description.unwrap_or(&[]);
    let jumps = if streams.len() > 1 { JUMP_BYTES } else { 0 };
    let bytes = described.len() + jumps + streams.iter().map(|stream| stream.len()).sum::<usize>();
    let literals_type = if description.is_some() { COMPRESSED } else { TREELESS };
    let (format, width, header_bytes) = match literals.max(bytes) {
        _ if streams.len() == 1 => (0, 10, 3),
        0..1024 => (1, 10, 3),
        1024..16_384 => (2, 14, 4),
        _ => (3, 18, 5),
    };
    let header = u64::from(literals_type | format << 2) | (literals as u64) << 4 | (bytes as u64) << (4 + width);
    let target = target.get_mut(..header_bytes + bytes)?;
    let (head, mut rest) = target.split_at_mut(header_bytes);
    head.copy_from_slice(&header.to_le_bytes()[..header_bytes]);
    let mut push = |piece: &[u8]| {
        let (place, behind) = std::mem::take(&mut rest).split_at_mut(piece.len());
        place.copy_from_slice(piece);
        rest = behind;
    };
    push(described);
    if streams.len() > 1 {
        for stream in &streams[..STREAMS - 1] {
            push(&u16::try_from(stream.len()).ok()?.to_le_bytes());
        }
    }
    streams.iter().for_each(|stream| push(stream));
    Some(header_bytes + bytes)
}

/// Writes literals as they are, or one byte if they are all the same. `None`: no room.
pub(super) fn plain(literals: &[u8], target: &mut [u8]) -> Option<usize> {
    let same = literals.len() > 1 && literals.iter().all(|byte| *byte == literals[0]);
    let literals_type = if same { RLE } else { RAW };
    let (format, shift, header_bytes) = match literals.len() {
        0..32 => (0, 3, 1),
        32..4096 => (1, 4, 2),
        _ => (3, 4, 3),
    };
    let header = u32::from(literals_type | format << 2) | (literals.len() as u32) << shift;
    let body = if same { &literals[..1] } else { literals };
    let target = target.get_mut(..header_bytes + body.len())?;
    target[..header_bytes].copy_from_slice(&header.to_le_bytes()[..header_bytes]);
    target[header_bytes..].copy_from_slice(body);
    Some(target.len())
}
