//! Pixels as they are: raw, or as numpy's files, which are raw behind a header.

use std::fs::File;
use std::io::{BufWriter, Write};

use shardwright::ElementType;

use super::image::{ExportedRegion, PixelSink, broken, flushed};
use crate::failure::Failure;

/// Pixels one after another.
pub(super) struct Plain {
    file: BufWriter<File>,
}

impl Plain {
    pub(super) fn raw(file: BufWriter<File>) -> Self {
        Self { file }
    }

    /// Source: NumPy, "NPY format", version 1.0.
    pub(super) fn npy(mut file: BufWriter<File>, image: &ExportedRegion) -> Result<Self, Failure> {
        file.write_all(&npy_header(image.dtype, &image.shape)).map_err(|error| broken(&error))?;
        Ok(Self { file })
    }
}

impl PixelSink for Plain {
    fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.file.write_all(bytes).map_err(|error| broken(&error))
    }

    fn finish(self: Box<Self>) -> Result<(), Failure> {
        flushed(self.file)
    }
}

/// Magic, version, length of the dictionary, dictionary; padded to a multiple of 64 bytes, so that the pixels can be
/// mapped.
fn npy_header(dtype: ElementType, shape: &[u64]) -> Vec<u8> {
    let kind = match dtype.zarr_name().as_bytes()[0] {
        b'r' => 'V',
        kind => char::from(kind),
    };
    let order = if dtype.number_bytes() == 1 { '|' } else { '<' };
    let lengths: String = shape.iter().map(|length| format!("{length}, ")).collect();
    let descr = format!("{order}{kind}{}", dtype.size());
    let mut dictionary = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({lengths}), }}");
    let used = 10 + dictionary.len() + 1;
    dictionary.extend(std::iter::repeat_n(' ', used.next_multiple_of(64) - used));
    dictionary.push('\n');
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    header.extend((dictionary.len() as u16).to_le_bytes());
    header.extend(dictionary.into_bytes());
    header
}

#[cfg(test)]
mod tests {
    use shardwright::Dtype;

    use super::*;

    #[test]
    fn a_header_is_a_dictionary_that_ends_at_a_multiple_of_64() {
        let header = npy_header(Dtype::U16.into(), &[3, 40]);
        assert_eq!(header.len() % 64, 0);
        assert_eq!(&header[..8], b"\x93NUMPY\x01\x00");
        assert_eq!(usize::from(header[8]) + 256 * usize::from(header[9]) + 10, header.len());
        let text = String::from_utf8_lossy(&header[10..]);
        assert!(text.starts_with("{'descr': '<u2', 'fortran_order': False, 'shape': (3, 40, ), }"), "{text}");
        assert!(text.ends_with(" \n"));
        let begins = |dtype: ElementType, descr: &str| {
            let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ()");
            assert!(String::from_utf8_lossy(&npy_header(dtype, &[])[10..]).starts_with(&text), "{dtype}");
        };
        begins(Dtype::I8.into(), "|i1");
        begins(ElementType::Bool, "|b1");
        begins(ElementType::F16, "<f2");
        begins(ElementType::C64, "<c8");
        begins(ElementType::C128, "<c16");
        begins(ElementType::Raw(3), "|V3");
    }
}
