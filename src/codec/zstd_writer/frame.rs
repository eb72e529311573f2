//! Frames and blocks (RFC 8878, section 3.1.1).
//!
//! ```text
//! byte 0   magic number
//!      4   descriptor: 0xC0 bytes of the content size, 0x20 no window descriptor, so that the window is the content
//!      5   content size: u8, u16 less 256, u32 or u64
//!      ..  blocks: u24 (0x1 last, 0x6 type, the rest is the size), and the block
//! ```
//!
//! All numbers are little-endian.

const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
const SINGLE_SEGMENT: u8 = 0x20;
/// The most bytes of a block, both as they are and as they are written.
pub(super) const BLOCK_BYTES_MAX: usize = 128 << 10;
const BLOCK_HEADER_BYTES: usize = 3;
const LAST_BLOCK: u8 = 1;

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockType {
    /// The bytes as they are.
    Raw = 0,
    /// One byte, and how often it comes.
    Rle = 1,
    /// Literals and sequences.
    Compressed = 2,
}

/// A frame as far as it is written. Its methods give `None` when there is no room.
pub(super) struct Frame<'a> {
    target: &'a mut [u8],
    at: usize,
    /// Where the header of the last block stands.
    last: Option<usize>,
    /// What the last block repeats, and how often.
    repeated: Option<(u8, usize)>,
}

impl<'a> Frame<'a> {
    pub(super) fn begin(content_bytes: usize, target: &'a mut [u8]) -> Option<Self> {
        let mut header = [0; 13];
        header[..4].copy_from_slice(&MAGIC);
        let (flag, size, size_bytes) = match content_bytes {
            0..256 => (0, content_bytes, 1),
            256..65_792 => (1, content_bytes - 256, 2),
            _ if u32::try_from(content_bytes).is_ok() => (2, content_bytes, 4),
            _ => (3, content_bytes, 8),
        };
        header[4] = SINGLE_SEGMENT | flag << 6;
        header[5..].copy_from_slice(&(size as u64).to_le_bytes());
        let at = 5 + size_bytes;
        target.get_mut(..at)?.copy_from_slice(&header[..at]);
        Some(Self { target, at, last: None, repeated: None })
    }

    /// Appends a block that `fill` writes and gives the bytes of.
    pub(super) fn compressed(&mut self, fill: impl FnOnce(&mut [u8]) -> Option<usize>) -> Option<()> {
        let room = self.target.get_mut(self.at + BLOCK_HEADER_BYTES..)?;
        let most = room.len().min(BLOCK_BYTES_MAX);
        let bytes = fill(&mut room[..most])?;
        self.header(BlockType::Compressed, bytes)?;
        self.at += bytes;
        Some(())
    }

    /// Appends bytes as they are, in as many blocks as that takes.
    pub(super) fn raw(&mut self, bytes: &[u8]) -> Option<()> {
        for piece in bytes.chunks(BLOCK_BYTES_MAX) {
            self.header(BlockType::Raw, piece.len())?;
            self.push(piece)?;
        }
        Some(())
    }

    /// Appends a byte that comes so often, which is not more often than a block can say. It joins a block of the same.
    pub(super) fn rle(&mut self, byte: u8, mut times: usize) -> Option<()> {
        if let Some((before, times_before)) = self.repeated
            && before == byte
            && times_before + times <= BLOCK_BYTES_MAX
        {
            times += times_before;
            self.at = self.last?;
        }
        self.header(BlockType::Rle, times)?;
        self.repeated = Some((byte, times));
        self.push(&[byte])
    }

    /// Appends the blocks of a whole frame, which must have been written by itself.
    pub(super) fn blocks_of(&mut self, frame: &[u8]) -> Option<()> {
        let mut rest = frame.get(header_bytes(frame)?..)?;
        while let Some((header, body)) = rest.split_first_chunk::<BLOCK_HEADER_BYTES>() {
            let number = u32::from_le_bytes([header[0], header[1], header[2], 0]);
            let (block_type, size) = (number >> 1 & 3, (number >> 3) as usize);
            let bytes = if block_type == BlockType::Rle as u32 { 1 } else { size };
            (self.last, self.repeated) = (Some(self.at), None);
            self.push(&(number & !u32::from(LAST_BLOCK)).to_le_bytes()[..BLOCK_HEADER_BYTES])?;
            self.push(body.get(..bytes)?)?;
            rest = if number & u32::from(LAST_BLOCK) == 0 { &body[bytes..] } else { &[] };
        }
        Some(())
    }

    /// Ends the frame and returns its bytes.
    pub(super) fn finish(mut self) -> Option<usize> {
        if self.last.is_none() {
            self.header(BlockType::Raw, 0)?;
        }
        self.target[self.last?] |= LAST_BLOCK;
        Some(self.at)
    }

    fn header(&mut self, block_type: BlockType, size: usize) -> Option<()> {
        self.last = Some(self.at);
        self.repeated = None;
        let number = (block_type as u32) << 1 | (size as u32) << 3;
        self.push(&number.to_le_bytes()[..BLOCK_HEADER_BYTES])
    }

    fn push(&mut self, bytes: &[u8]) -> Option<()> {
        self.target.get_mut(self.at..self.at + bytes.len())?.copy_from_slice(bytes);
        self.at += bytes.len();
        Some(())
    }
}

/// Where the first block of a frame begins.
fn header_bytes(frame: &[u8]) -> Option<usize> {
    let descriptor = *frame.strip_prefix(&MAGIC)?.first()?;
    let single_segment = descriptor & SINGLE_SEGMENT != 0;
    let size_bytes = match descriptor >> 6 {
        0 => usize::from(single_segment),
        flag => 1 << flag,
    };
    let dictionary_bytes = [0, 1, 2, 4][usize::from(descriptor & 3)];
    Some(5 + usize::from(!single_segment) + dictionary_bytes + size_bytes)
}
