//! The directories of a TIFF file (IFDs) and their fields. Nothing here knows what a field means.
//!
//! ```text
//! classic   "II" or "MM"  u16 42                  u32 first IFD     IFD: u16 count | count × 12 bytes | u32 next
//! BigTIFF   "II" or "MM"  u16 43  u16 8  u16 0    u64 first IFD     IFD: u64 count | count × 20 bytes | u64 next
//! field     u16 tag  u16 type  u32 or u64 count  value, or its offset where it is longer than 4 or 8 bytes
//! ```
//!
//! Sources: TIFF 6.0, section 2; "The BigTIFF file format proposal".

use std::fs::File;
use std::path::Path;

use super::super::files::read_at;

/// How classic TIFF and BigTIFF files begin, in both byte orders.
pub(crate) const MAGIC: [[u8; 4]; 4] = [*b"II\x2a\0", *b"MM\0\x2a", *b"II\x2b\0", *b"MM\0\x2b"];

/// A description of a long stack is some megabytes; a length field that claims more than this is a broken file.
const FIELD_BYTES_MAX: u64 = 256 << 20;

/// Bytes read at once: a directory with its values lies together as a rule.
const WINDOW_BYTES: usize = 4096;

/// The order of bytes in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// Whether numbers must be turned round to become this machine's.
    pub(crate) fn is_foreign(self) -> bool {
        (self == Self::Little) != cfg!(target_endian = "little")
    }

    /// A number of at most 8 bytes.
    pub(crate) fn number(self, bytes: &[u8]) -> u64 {
        let add = |number: u64, &byte: &u8| number << 8 | u64::from(byte);
        match self {
            Self::Little => bytes.iter().rev().fold(0, add),
            Self::Big => bytes.iter().fold(0, add),
        }
    }
}

/// A file whose bytes are read by their places, some of them ahead.
pub(crate) struct TiffBytes {
    pub(crate) file: File,
    pub(crate) len: u64,
    window: Vec<u8>,
    window_start: u64,
}

impl TiffBytes {
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        let file = super::super::files::open_regular(path)?;
        let len = file.metadata()?.len();
        Ok(Self { file, len, window: Vec::new(), window_start: 0 })
    }

    /// `count` bytes from `offset` on. Nothing longer than the file is ever allocated.
    pub(crate) fn at(&mut self, offset: u64, count: u64) -> Result<&[u8], String> {
        if count > FIELD_BYTES_MAX {
            return Err(format!("it claims {count} bytes, more than {FIELD_BYTES_MAX}"));
        }
        let end = offset.checked_add(count).filter(|&end| end <= self.len).ok_or("the file ends too early")?;
        let window_end = self.window_start + self.window.len() as u64;
        if offset < self.window_start || end > window_end {
            let bytes = (count.max(WINDOW_BYTES as u64)).min(self.len - offset) as usize;
            self.window.resize(bytes, 0);
            self.window_start = offset;
            if let Err(error) = read_at(&self.file, &mut self.window, offset) {
                self.window.clear();
                return Err(error.to_string());
            }
        }
        let start = (offset - self.window_start) as usize;
        Ok(&self.window[start..start + count as usize])
    }
}

/// What the first bytes of a TIFF file say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TiffHeader {
    pub(crate) order: ByteOrder,
    is_big: bool,
    pub(crate) first: u64,
}

impl TiffHeader {
    pub(crate) fn read(bytes: &mut TiffBytes) -> Result<Self, String> {
        let head = bytes.at(0, 8)?;
        let order = if head[0] == b'I' { ByteOrder::Little } else { ByteOrder::Big };
        if order.number(&head[2..4]) == 42 {
            let first = order.number(&head[4..8]);
            return Ok(Self { order, is_big: false, first });
        }
        let offset_bytes = order.number(&head[4..6]);
        if offset_bytes != 8 {
            return Err(format!("it is a BigTIFF file with offsets of {offset_bytes} bytes; expected 8"));
        }
        let first = order.number(bytes.at(8, 8)?);
        Ok(Self { order, is_big: true, first })
    }
}

/// One field of a directory.
#[derive(Debug, Clone, Copy)]
struct IfdField {
    tag: u16,
    kind: u16,
    count: u64,
    /// Where the value is in the file.
    at: u64,
}

impl IfdField {
    /// Bytes of one element; `None` for types that nobody knows.
    fn element_bytes(self) -> Option<u64> {
        Some(match self.kind {
            1 | 2 | 6 | 7 => 1,
            3 | 8 => 2,
            4 | 9 | 11 | 13 => 4,
            5 | 10 | 12 | 16..=18 => 8,
            _ => return None,
        })
    }

    fn is_unsigned(self) -> bool {
        matches!(self.kind, 1 | 3 | 4 | 13 | 16 | 18)
    }
}

/// A directory.
#[derive(Debug)]
pub(crate) struct Ifd {
    fields: Vec<IfdField>,
    order: ByteOrder,
    /// Where the next directory is; 0: there is none.
    pub(crate) next: u64,
}

impl Ifd {
    pub(crate) fn read(bytes: &mut TiffBytes, header: TiffHeader, offset: u64) -> Result<Self, String> {
        let (order, word, count_bytes) = if header.is_big { (header.order, 8, 8) } else { (header.order, 4, 2) };
        let count = order.number(bytes.at(offset, count_bytes)?);
        if count == 0 || count > u64::from(u16::MAX) {
            return Err(format!("the directory at {offset} claims {count} fields"));
        }
        let (start, field_bytes) = (offset + count_bytes, 4 + 2 * word);
        let table = bytes.at(start, count * field_bytes + word)?;
        let (table, next) = table.split_at((count * field_bytes) as usize);
        let next = order.number(next);
        let fields = table.chunks_exact(field_bytes as usize).zip(0..).map(|(bytes, index)| {
            let (head, value) = bytes.split_at(bytes.len() - word as usize);
            let mut field = IfdField {
                tag: order.number(&head[..2]) as u16,
                kind: order.number(&head[2..4]) as u16,
                count: order.number(&head[4..]),
                at: start + index * field_bytes + 4 + word,
            };
            let is_inside = field.element_bytes().and_then(|bytes| bytes.checked_mul(field.count));
            if is_inside.is_none_or(|bytes| bytes > word) {
                field.at = order.number(value);
            }
            field
        });
        let fields = fields.collect();
        Ok(Self { fields, order, next })
    }

    fn field(&self, tag: u16) -> Option<IfdField> {
        self.fields.iter().find(|field| field.tag == tag).copied()
    }

    /// The bytes of a field's value, of its first `max` elements.
    fn value<'a>(&self, bytes: &'a mut TiffBytes, field: IfdField, max: u64) -> Result<(&'a [u8], usize), String> {
        let wrong = |why: &str| format!("field {} {why}", field.tag);
        let element = field.element_bytes().ok_or_else(|| wrong(&format!("has the unknown type {}", field.kind)))?;
        let value = field.count.min(max).checked_mul(element).ok_or("the file ends too early".to_owned());
        let value = value.and_then(|count| bytes.at(field.at, count));
        Ok((value.map_err(|why| wrong(&format!("can't be read: {why}")))?, element as usize))
    }

    /// The whole numbers of a field, the first `max`; empty if there is no such field.
    pub(crate) fn numbers(&self, bytes: &mut TiffBytes, tag: u16, max: u64) -> Result<Vec<u64>, String> {
        let Some(field) = self.field(tag) else { return Ok(Vec::new()) };
        if !field.is_unsigned() {
            return Err(format!("field {tag} is of type {}, no whole numbers", field.kind));
        }
        let (value, element) = self.value(bytes, field, max)?;
        Ok(value.chunks_exact(element).map(|number| self.order.number(number)).collect())
    }

    /// The first whole number of a field.
    pub(crate) fn number(&self, bytes: &mut TiffBytes, tag: u16) -> Result<Option<u64>, String> {
        Ok(self.numbers(bytes, tag, 1)?.first().copied())
    }

    /// A text, up to its first zero byte.
    pub(crate) fn text(&self, bytes: &mut TiffBytes, tag: u16) -> Option<String> {
        self.text_of(bytes, self.field(tag)?)
    }

    /// The same of all fields that have this tag.
    pub(crate) fn texts(&self, bytes: &mut TiffBytes, tag: u16) -> Vec<String> {
        let fields = self.fields.iter().filter(|field| field.tag == tag);
        fields.filter_map(|&field| self.text_of(bytes, field)).collect()
    }

    fn text_of(&self, bytes: &mut TiffBytes, field: IfdField) -> Option<String> {
        let (value, _) = self.value(bytes, field, u64::MAX).ok().filter(|_| matches!(field.kind, 1 | 2 | 7))?;
        let value = value.split(|&byte| byte == 0).next().unwrap_or_default();
        // ImageJ writes Latin-1 where it means µ.
        Some(match str::from_utf8(value) {
            Ok(text) => text.to_owned(),
            Err(_) => value.iter().map(|&byte| char::from(byte)).collect(),
        })
    }

    /// The bytes of a field as they are.
    pub(crate) fn bytes(&self, bytes: &mut TiffBytes, tag: u16) -> Result<Option<Vec<u8>>, String> {
        let Some(field) = self.field(tag) else { return Ok(None) };
        Ok(Some(self.value(bytes, field, u64::MAX)?.0.to_vec()))
    }

    /// A fraction: what stands above and below its line.
    pub(crate) fn fraction(&self, bytes: &mut TiffBytes, tag: u16) -> Option<[f64; 2]> {
        let field = self.field(tag).filter(|field| field.kind == 5)?;
        let (value, _) = self.value(bytes, field, 1).ok()?;
        let (above, below) = (self.order.number(value.get(..4)?), self.order.number(value.get(4..)?));
        (below != 0).then_some([above as f64, below as f64])
    }

    /// How many elements a field has; 0 if there is no such field.
    pub(crate) fn count(&self, tag: u16) -> u64 {
        self.field(tag).map_or(0, |field| field.count)
    }

    /// Where a field's value is in the file.
    pub(crate) fn place(&self, tag: u16) -> Option<u64> {
        self.field(tag).map(|field| field.at)
    }

    pub(crate) fn has(&self, tag: u16) -> bool {
        self.field(tag).is_some()
    }
}
