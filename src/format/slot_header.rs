//! The header before each chunk of a shard. The encoded chunk behind it is its payload.
//!
//! ```text
//!  0  magic          4   "SWc1", written last
//!  4  version        1   1
//!  5  flags          1   bit 0: the payload's last 4 bytes are its checksum, which `payload crc` repeats
//!  6  frames came    2   how many frames of the chunk came; 0: more than 65,535, or not known
//!  8  payload crc    4   crc32c of the payload; with flag bit 0 of the payload without its last 4 bytes
//! 12  chunk          4   place of the chunk in the shard's index
//! 16  nbytes         8   bytes of the payload
//! 24  dataset       16   the uuid of the image, which its attributes name as `writer`
//! 40  shard          8   place of the shard among the shards of the array, in the order of their creation
//! 48  first frame    8   the lowest frame number in the chunk
//! 56  frames         4   the highest frame number minus the lowest
//! 60  header crc     4   crc32c of bytes 0 to 60
//! 64  payload
//! ```
//!
//! All numbers are little-endian. Zarr allows bytes between chunks that no index entry names; the header lives there,
//! so that an index can be rebuilt when the process or the machine died before it wrote one.

pub(crate) const HEADER_BYTES: usize = 64;

pub(crate) const MAGIC: [u8; 4] = *b"SWc1";
const VERSION: u8 = 1;
const FLAG_CHECKSUM_IN_PAYLOAD: u8 = 1;

/// What a header says beside what the payload itself says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) dataset: [u8; 16],
    pub(crate) shard: u64,
    pub(crate) chunk: u32,
    pub(crate) first_frame: u64,
    /// The highest frame number minus the lowest.
    pub(crate) frames: u32,
    /// How many frames came; 0 if that is not known, or too many.
    pub(crate) frames_came: u16,
    /// Whether the payload ends with its own checksum.
    pub(crate) checksum_in_payload: bool,
}

pub(crate) fn header(origin: &Origin, payload: &[u8]) -> [u8; HEADER_BYTES] {
    let crc = match payload.split_last_chunk::<4>() {
        // A crc over data and its own crc is a constant and proves nothing, so the one in the payload is repeated.
        Some((_, crc)) if origin.checksum_in_payload => u32::from_le_bytes(*crc),
        _ => crc32c::crc32c(payload),
    };
    header_with(origin, payload.len(), crc)
}

pub(crate) fn header_with(origin: &Origin, nbytes: usize, crc: u32) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[0..4].copy_from_slice(&MAGIC);
    bytes[4] = VERSION;
    bytes[5] = if origin.checksum_in_payload { FLAG_CHECKSUM_IN_PAYLOAD } else { 0 };
    bytes[6..8].copy_from_slice(&origin.frames_came.to_le_bytes());
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
    bytes[12..16].copy_from_slice(&origin.chunk.to_le_bytes());
    bytes[16..24].copy_from_slice(&(nbytes as u64).to_le_bytes());
    bytes[24..40].copy_from_slice(&origin.dataset);
    bytes[40..48].copy_from_slice(&origin.shard.to_le_bytes());
    bytes[48..56].copy_from_slice(&origin.first_frame.to_le_bytes());
    bytes[56..60].copy_from_slice(&origin.frames.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// What a header says, as read back. It vouches for itself by its own checksum, and for nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotHeader {
    pub(crate) origin: Origin,
    pub(crate) nbytes: u64,
    payload_crc: u32,
}

pub(crate) fn has_magic(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// The header in `bytes`, if it is whole and of a version that is known.
pub(crate) fn parse(bytes: &[u8; HEADER_BYTES]) -> Option<SlotHeader> {
    let u32_at = |at: usize| bytes[at..].first_chunk().copied().map(u32::from_le_bytes);
    let u64_at = |at: usize| bytes[at..].first_chunk().copied().map(u64::from_le_bytes);
    let whole = has_magic(bytes) && u32_at(60)? == crc32c::crc32c(&bytes[..60]);
    // A bit that this version gives no meaning may change that of the others.
    let known = bytes[4] == VERSION && bytes[5] & !FLAG_CHECKSUM_IN_PAYLOAD == 0;
    let origin = Origin {
        dataset: *bytes[24..].first_chunk()?,
        shard: u64_at(40)?,
        chunk: u32_at(12)?,
        first_frame: u64_at(48)?,
        frames: u32_at(56)?,
        frames_came: u16::from_le_bytes(*bytes[6..].first_chunk()?),
        checksum_in_payload: bytes[5] == FLAG_CHECKSUM_IN_PAYLOAD,
    };
    (whole && known).then_some(SlotHeader { origin, nbytes: u64_at(16)?, payload_crc: u32_at(8)? })
}

impl SlotHeader {
    /// Whether `payload` is what was committed under this header.
    pub(crate) fn vouches_for(&self, payload: &[u8]) -> bool {
        let crc = match payload.split_last_chunk::<4>() {
            // The checksum in the payload is only as good as what it says about the bytes before it.
            Some((data, crc)) if self.origin.checksum_in_payload => {
                let stored = u32::from_le_bytes(*crc);
                (crc32c::crc32c(data) == stored).then_some(stored)
            }
            _ if self.origin.checksum_in_payload => None,
            _ => Some(crc32c::crc32c(payload)),
        };
        payload.len() as u64 == self.nbytes && crc == Some(self.payload_crc)
    }

    /// The highest frame number in the chunk, as far as a number can be that.
    pub(crate) fn last_frame(&self) -> u64 {
        self.origin.first_frame.saturating_add(self.origin.frames.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: Origin = Origin {
        dataset: [7; 16],
        shard: 3,
        chunk: 5,
        first_frame: 80,
        frames: 15,
        frames_came: 9,
        checksum_in_payload: false,
    };

    #[test]
    fn a_header_says_what_it_must_at_its_places() {
        let bytes = header(&ORIGIN, b"payload");
        assert_eq!(&bytes[..8], b"SWc1\x01\x00\x09\x00");
        assert_eq!(bytes[8..12], crc32c::crc32c(b"payload").to_le_bytes());
        assert_eq!(bytes[12..16], 5u32.to_le_bytes());
        assert_eq!(bytes[16..24], 7u64.to_le_bytes());
        assert_eq!(bytes[24..40], [7; 16]);
        assert_eq!(bytes[40..48], 3u64.to_le_bytes());
        assert_eq!(bytes[48..56], 80u64.to_le_bytes());
        assert_eq!(bytes[56..60], 15u32.to_le_bytes());
        assert_eq!(bytes[60..], crc32c::crc32c(&bytes[..60]).to_le_bytes());
    }

    #[test]
    fn a_checksummed_payload_lends_its_own_checksum() {
        let crc = crc32c::crc32c(b"data");
        let payload = [&b"data"[..], &crc.to_le_bytes()].concat();
        let bytes = header(&Origin { checksum_in_payload: true, ..ORIGIN }, &payload);
        assert_eq!(bytes[5], 1);
        assert_eq!(bytes[8..12], crc.to_le_bytes());
    }

    #[test]
    fn a_header_is_read_back_and_vouches_for_its_payload_alone() {
        let crc = crc32c::crc32c(b"data");
        let payload = [&b"data"[..], &crc.to_le_bytes()].concat();
        for checksum_in_payload in [false, true] {
            let bytes = header(&Origin { checksum_in_payload, ..ORIGIN }, &payload);
            let read = parse(&bytes).expect("a header");
            assert_eq!(read.origin, Origin { checksum_in_payload, ..ORIGIN });
            assert_eq!((read.nbytes, read.last_frame()), (8, 95));
            assert!(read.vouches_for(&payload));
            for at in 0..payload.len() {
                let mut flipped = payload.clone();
                flipped[at] ^= 0x10;
                assert!(!read.vouches_for(&flipped), "byte {at}");
            }
            assert!(!read.vouches_for(&payload[..7]) && !read.vouches_for(&[]));
        }
    }

    #[test]
    fn a_flipped_bit_spoils_a_header() {
        let bytes = header(&ORIGIN, b"payload");
        for bit in 0..8 * HEADER_BYTES {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(parse(&flipped), None, "bit {bit}");
        }
    }

    #[test]
    fn a_header_of_the_future_is_not_understood() {
        for (at, value) in [(4, 2), (5, 2)] {
            let mut bytes = header(&ORIGIN, b"payload");
            bytes[at] = value;
            let crc = crc32c::crc32c(&bytes[..60]);
            bytes[60..].copy_from_slice(&crc.to_le_bytes());
            assert_eq!(parse(&bytes), None, "byte {at}");
        }
    }
}
