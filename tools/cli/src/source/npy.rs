//! NumPy's `.npy`: a header that says type and shape, then the array.
//!
//! ```text
//! 0  magic   6  "\x93NUMPY"
//! 6  version 2  major, minor: 1.0, 2.0 or 3.0
//! 8  n       2  (4 from version 2.0 on), little-endian
//!    header  n  a Python dictionary: {'descr': '<u2', 'fortran_order': False, 'shape': (10, 64, 64), }
//! ```
//!
//! Source: NumPy Enhancement Proposal 1.

use std::fs::File;

use shardwright::Dtype;

use super::files::read_at;
use super::tiff::ByteOrder;
use super::why::Why;
use shardwright::words::quoted;

pub(crate) const MAGIC: [u8; 6] = *b"\x93NUMPY";

/// What the header says.
#[derive(Debug, PartialEq)]
pub(crate) struct NpyHeader {
    pub(crate) element: NpyElement,
    pub(crate) order: ByteOrder,
    pub(crate) shape: Vec<u64>,
    /// Where the array begins.
    pub(crate) offset: u64,
}

/// An element of the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NpyElement {
    Number(Dtype),
    /// A byte that is 0 or 1.
    Bool,
    /// A half-precision number.
    Half,
}

impl NpyElement {
    /// What it becomes.
    pub(crate) fn dtype(self) -> Dtype {
        match self {
            Self::Number(dtype) => dtype,
            Self::Bool => Dtype::U8,
            Self::Half => Dtype::F32,
        }
    }

    /// Bytes in the file.
    pub(crate) fn bytes(self) -> u64 {
        if self == Self::Half { 2 } else { self.dtype().size() as u64 }
    }

    /// What the user should know.
    pub(crate) fn note(self) -> Option<&'static str> {
        match self {
            Self::Number(_) => None,
            Self::Bool => Some("booleans are written as uint8, 0 and 1"),
            Self::Half => Some("half-precision numbers are written as single-precision ones, without a loss"),
        }
    }
}

impl NpyHeader {
    /// Reads the header of a file. `Err` says what is wrong with it or can't be replayed.
    pub(crate) fn read(file: &File) -> Result<Self, Why> {
        let mut head = [0; 12];
        read_at(file, &mut head, 0).map_err(|_| "its header breaks off")?;
        let number = |bytes: &[u8]| ByteOrder::Little.number(bytes);
        let (start, length) = match head[6] {
            1 => (10, number(&head[8..10])),
            2 | 3 => (12, number(&head[8..12])),
            other => return Why::unread(format!("its version {other} is unknown; 1 to 3 are known")),
        };
        if length > 1 << 20 {
            return Err(format!("its header claims {length} bytes").into());
        }
        let mut text = vec![0; length as usize];
        read_at(file, &mut text, start).map_err(|_| "its header breaks off")?;
        Self::parse(&String::from_utf8_lossy(&text), start + length)
    }

    fn parse(text: &str, offset: u64) -> Result<Self, Why> {
        let (element, order) = element_type(text)?;
        let shape = value(text, "shape").and_then(|value| value.strip_prefix('(')?.split_once(')'));
        let numbers = shape.ok_or("its header names no shape")?.0.split(',').map(str::trim);
        let shape: Result<Vec<u64>, _> = numbers.filter(|number| !number.is_empty()).map(str::parse).collect();
        let shape = shape.map_err(|_| "its shape is not of whole numbers")?;
        let is_fortran =
            value(text, "fortran_order").ok_or("its header says nothing of its order")?.starts_with("True");
        // Along one dimension both orders are the same.
        if is_fortran && shape.iter().filter(|&&size| size > 1).count() > 1 {
            return Why::unread(
                "it is in Fortran's order, so that a frame's pixels lie all over the file; write it with \
                 numpy.save(path, numpy.ascontiguousarray(array))",
            );
        }
        Ok(Self { element, order, shape, offset })
    }
}

/// What stands after a key of the dictionary.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let after = ['\'', '"'].iter().find_map(|quote| text.split_once(&format!("{quote}{key}{quote}")))?.1;
    Some(after.trim_start().strip_prefix(':')?.trim_start())
}

fn element_type(text: &str) -> Result<(NpyElement, ByteOrder), Why> {
    let descr = value(text, "descr").ok_or("its header names no type")?;
    let quote = descr.chars().next().filter(|quote| matches!(quote, '\'' | '"'));
    let descr = quote.and_then(|quote| descr[1..].split_once(quote));
    let Some((descr, _)) = descr else {
        return Why::unread("its elements are records; only single numbers can be replayed");
    };
    let order = if descr.starts_with('>') { ByteOrder::Big } else { ByteOrder::Little };
    let dtype = match descr.trim_start_matches(['<', '>', '|', '=']) {
        "b1" => return Ok((NpyElement::Bool, order)),
        "f2" => return Ok((NpyElement::Half, order)),
        "u1" => Dtype::U8,
        "u2" => Dtype::U16,
        "u4" => Dtype::U32,
        "u8" => Dtype::U64,
        "i1" => Dtype::I8,
        "i2" => Dtype::I16,
        "i4" => Dtype::I32,
        "i8" => Dtype::I64,
        "f4" => Dtype::F32,
        "f8" => Dtype::F64,
        _ => {
            let names: Vec<_> = Dtype::ALL.iter().map(Dtype::to_string).collect();
            return Why::unread(format!(
                "its elements are {}, which can't be replayed; possible are bool, float16, {}",
                quoted(descr),
                names.join(", ")
            ));
        }
    };
    Ok((NpyElement::Number(dtype), order))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read() {
        let text = "{'descr': '>i2', 'fortran_order': False, 'shape': (3, 4, 5), }  \n";
        let header = NpyHeader {
            element: NpyElement::Number(Dtype::I16),
            order: ByteOrder::Big,
            shape: vec![3, 4, 5],
            offset: 128,
        };
        assert_eq!(NpyHeader::parse(text, 128), Ok(header));
        let one = NpyHeader::parse("{'descr': '|u1', 'fortran_order': True, 'shape': (7,), }", 64).unwrap();
        assert_eq!((one.element, one.shape), (NpyElement::Number(Dtype::U8), vec![7]));
    }

    #[test]
    fn what_can_t_be_replayed_is_said() {
        let cases = [
            ("{'descr': '<c8', 'fortran_order': False, 'shape': (3, 4), }", "<c8"),
            ("{'descr': [('a', '<u2')], 'fortran_order': False, 'shape': (3, 4), }", "records"),
            ("{'descr': '<u2', 'fortran_order': True, 'shape': (3, 4), }", "Fortran"),
            ("{'descr': '<u2', 'fortran_order': False, 'shape': (3, -4), }", "whole numbers"),
            ("{'descr': '<u2', 'fortran_order': False}", "no shape"),
            ("{'descr': '<u2', 'shape': (3, 4)}", "order"),
            ("", "no type"),
        ];
        for (text, expected) in cases {
            let refused = NpyHeader::parse(text, 0).unwrap_err().to_string();
            assert!(refused.contains(expected), "{refused:?} lacks {expected:?}");
        }
    }
}
