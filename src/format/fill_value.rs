//! Fill values: from a document to the bytes of one element, and from there to rows.

use serde_json::Value;

use super::base64;
use super::half;
use crate::dtype::{Dtype, ElementType};
use crate::json;

/// The little-endian bytes of one element, or why the value is none.
///
/// Zarr v3 core, "Fill value list": floats may also be `"NaN"`, `"Infinity"`, `"-Infinity"` or their bits in
/// hexadecimal, complex numbers are pairs of floats, and raw bytes a list of numbers. Zarr v2 and zarr-python have raw
/// bytes in Base64.
pub(crate) fn element(element: ElementType, value: &Value) -> Result<Vec<u8>, String> {
    let bytes = match element {
        ElementType::Number(Dtype::F32) => float(value, 4),
        ElementType::Number(Dtype::F64) => float(value, 8),
        ElementType::Number(dtype) => integer(dtype, value),
        ElementType::Bool => truth(value),
        ElementType::F16 => float(value, 2),
        ElementType::C64 => complex(value, 4),
        ElementType::C128 => complex(value, 8),
        ElementType::Raw(length) => raw(value, length.into()),
    };
    bytes.ok_or_else(|| format!("fill_value {} is no {}", json::render_line(value), element.zarr_name()))
}

/// A number of this many bytes, or the bits of one.
fn float(value: &Value, size: usize) -> Option<Vec<u8>> {
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => match (text.strip_prefix('\0').unwrap_or(text), json::long_integer(text)) {
            ("NaN", _) => f64::NAN,
            ("Infinity", _) => f64::INFINITY,
            ("-Infinity", _) => f64::NEG_INFINITY,
            ("-0", _) => -0.0,
            (_, Some(digits)) => digits.parse().ok()?,
            _ => return bits(text, size),
        },
        _ => return None,
    };
    Some(match size {
        2 => half::from_f64(number).to_le_bytes().to_vec(),
        4 => (number as f32).to_le_bytes().to_vec(),
        _ => number.to_le_bytes().to_vec(),
    })
}

/// The little-endian bytes of bits in hexadecimal.
fn bits(text: &str, size: usize) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x")?;
    let plain = digits.len() == 2 * size && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let bits = plain.then(|| u64::from_str_radix(digits, 16).ok()).flatten()?;
    Some(bits.to_le_bytes()[..size].to_vec())
}

fn integer(dtype: Dtype, value: &Value) -> Option<Vec<u8>> {
    let number = match value {
        Value::Number(number) => whole(number)?,
        Value::String(text) if text == "\0-0" => 0,
        _ => return None,
    };
    dtype.integers()?.contains(&number).then(|| number.to_le_bytes()[..dtype.size()].to_vec())
}

/// The number as an integer; some writers put `0.0` for integer arrays.
fn whole(number: &serde_json::Number) -> Option<i128> {
    if let Some(number) = number.as_u64() {
        return Some(i128::from(number));
    }
    if let Some(number) = number.as_i64() {
        return Some(i128::from(number));
    }
    let number = number.as_f64()?;
    (number.fract() == 0.0 && number.abs() < 1e15).then_some(number as i128)
}

/// A boolean; some writers of Zarr v2 put a number.
fn truth(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::Bool(truth) => Some(vec![u8::from(*truth)]),
        Value::Number(number) => {
            whole(number).filter(|number| (0..=1).contains(number)).map(|number| vec![number as u8])
        }
        _ => None,
    }
}

/// The real and the imaginary part, of this many bytes each; some writers of Zarr v2 put the real part alone.
fn complex(value: &Value, size: usize) -> Option<Vec<u8>> {
    match value {
        Value::Array(parts) => {
            let [real, imaginary] = parts.as_slice() else { return None };
            Some([float(real, size)?, float(imaginary, size)?].concat())
        }
        Value::Number(_) => Some([float(value, size)?, vec![0; size]].concat()),
        _ => None,
    }
}

fn raw(value: &Value, length: usize) -> Option<Vec<u8>> {
    let bytes = match value {
        Value::Array(bytes) => {
            bytes.iter().map(|byte| u8::try_from(byte.as_u64()?).ok()).collect::<Option<Vec<u8>>>()?
        }
        Value::String(text) => base64::decode(text)?,
        _ => return None,
    };
    (bytes.len() == length).then_some(bytes)
}

/// The value of an element as a document of Zarr v3 has it. Of a NaN only that it is one.
pub(crate) fn to_json(element: ElementType, bytes: &[u8]) -> Value {
    let dtype = match element {
        ElementType::Number(dtype) => dtype,
        ElementType::Bool => return Value::from(bytes != [0]),
        ElementType::F16 => return of_float(half::to_f64(u16::from_le_bytes(exactly(bytes)))),
        ElementType::C64 => return pair(bytes, Dtype::F32),
        ElementType::C128 => return pair(bytes, Dtype::F64),
        ElementType::Raw(_) => return Value::from(bytes.to_vec()),
    };
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let bits = u64::from_le_bytes(wide);
    let signed = |bytes: usize| (bits << (64 - 8 * bytes)).cast_signed() >> (64 - 8 * bytes);
    match dtype {
        Dtype::F32 => of_float(f64::from(f32::from_bits(bits as u32))),
        Dtype::F64 => of_float(f64::from_bits(bits)),
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => Value::from(signed(dtype.size())),
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => Value::from(bits),
    }
}

/// The same in an array of Zarr v3, which has words for the bits of any NaN.
pub(crate) fn to_json_v3(element_type: ElementType, bytes: &[u8]) -> Value {
    let value = to_json(element_type, bytes);
    let part = match element_type {
        ElementType::C64 => ElementType::from(Dtype::F32),
        ElementType::C128 => Dtype::F64.into(),
        _ if is_as_told(element_type, bytes) => return value,
        _ => {
            let digits: String = bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect();
            return Value::from(format!("0x{digits}"));
        }
    };
    bytes.chunks(part.size()).map(|bytes| to_json_v3(part, bytes)).collect()
}

/// Whether [`to_json`] tells all of an element: of a NaN, it tells no bits.
pub(crate) fn is_as_told(element_type: ElementType, bytes: &[u8]) -> bool {
    element(element_type, &to_json(element_type, bytes)).is_ok_and(|told| told == bytes)
}

/// What to say of an array whose fill value a document without words for the bits of a NaN is to have. `result`: what
/// has that document; `format`: its format.
pub(crate) fn note_of_bits(element: ElementType, fill: &[u8], result: &str, format: &str) -> Option<String> {
    let note = || {
        format!(
            "has a NaN with bits of its own for its fill value, and {result} a plain one: {format} has no words for \
             them"
        )
    };
    (!is_as_told(element, fill)).then(note)
}

/// The same in Zarr v2.
pub(crate) fn to_json_v2(element: ElementType, bytes: &[u8]) -> Value {
    match element {
        ElementType::Raw(_) => Value::from(base64::encode(bytes)),
        _ => to_json(element, bytes),
    }
}

fn of_float(number: f64) -> Value {
    match number {
        _ if number.is_nan() => Value::from("NaN"),
        _ if number.is_infinite() => Value::from(if number > 0.0 { "Infinity" } else { "-Infinity" }),
        _ => Value::from(number),
    }
}

fn pair(bytes: &[u8], part: Dtype) -> Value {
    bytes.chunks(part.size()).map(|bytes| to_json(part.into(), bytes)).collect()
}

fn exactly<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("an element has as many bytes as its type")
}

/// Fills `row` with an element.
pub(crate) fn row(row: &mut [u8], element: &[u8]) {
    if element.iter().all(|&byte| byte == element[0]) {
        row.fill(element[0]);
    } else {
        row.chunks_exact_mut(element.len()).for_each(|pixel| pixel.copy_from_slice(element));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    use ElementType::{Bool, C64, C128, F16, Raw};

    #[test]
    fn fill_values_of_every_spelling() {
        let cases: [(ElementType, Value, Vec<u8>); 22] = [
            (Dtype::U16.into(), json!(513), vec![1, 2]),
            (Dtype::U16.into(), json!(0.0), vec![0, 0]),
            (Dtype::I16.into(), json!(-2), vec![0xFE, 0xFF]),
            (Dtype::U64.into(), json!(u64::MAX), vec![0xFF; 8]),
            (Dtype::I64.into(), json!(i64::MIN), i64::MIN.to_le_bytes().to_vec()),
            (Dtype::F32.into(), json!(1.5), 1.5f32.to_le_bytes().to_vec()),
            (Dtype::F32.into(), json!("0x7fc00001"), 0x7fc0_0001_u32.to_le_bytes().to_vec()),
            (Dtype::F64.into(), json!("\0-36893488147419103232"), (-2f64.powi(65)).to_le_bytes().to_vec()),
            (Dtype::F64.into(), json!("-Infinity"), f64::NEG_INFINITY.to_le_bytes().to_vec()),
            (Dtype::F64.into(), json!(-0.0), (-0.0f64).to_le_bytes().to_vec()),
            (Dtype::F64.into(), json!("0x7ff8000000000001"), 0x7ff8_0000_0000_0001_u64.to_le_bytes().to_vec()),
            (Bool, json!(true), vec![1]),
            (Bool, json!(0), vec![0]),
            (F16, json!(-0.0), vec![0, 0x80]),
            (F16, json!(0.1), 0x2E66_u16.to_le_bytes().to_vec()),
            (F16, json!("Infinity"), vec![0, 0x7C]),
            (F16, json!("0x7e01"), vec![1, 0x7E]),
            (C64, json!([1.5, "-Infinity"]), [1.5f32, f32::NEG_INFINITY].map(f32::to_le_bytes).concat()),
            (C64, json!(["0x7fc00001", -0.0]), [[1, 0, 0xC0, 0x7F], [0, 0, 0, 0x80]].concat()),
            (C128, json!(2), [2.0f64, 0.0].map(f64::to_le_bytes).concat()),
            (Raw(3), json!([1, 0, 255]), vec![1, 0, 255]),
            (Raw(3), json!("AQD/"), vec![1, 0, 255]),
        ];
        for (element_type, value, expected) in cases {
            assert_eq!(element(element_type, &value).as_ref(), Ok(&expected), "{element_type} {value}");
            assert_eq!(element(element_type, &to_json_v3(element_type, &expected)).as_ref(), Ok(&expected), "{value}");
            if !value.to_string().contains("0x") {
                for back in [to_json(element_type, &expected), to_json_v2(element_type, &expected)] {
                    let again = element(element_type, &back);
                    assert_eq!(again.as_ref(), Ok(&expected), "{element_type} {value} {back}");
                }
            }
        }
        let nan = element(Dtype::F32.into(), &json!("NaN")).expect("a float");
        assert!(f32::from_le_bytes(nan.try_into().expect("four bytes")).is_nan());
        assert_eq!(element(F16, &json!("NaN")), Ok(vec![0, 0x7E]));
        assert_eq!(to_json(F16, &[1, 0x7E]), json!("NaN"));
    }

    #[test]
    fn fill_values_that_are_none() {
        let cases: [(ElementType, Value); 22] = [
            (Dtype::I8.into(), json!("0xff")),
            (Dtype::U64.into(), json!("\u{0}18446744073709551616")),
            (Dtype::F64.into(), json!("18446744073709551616")),
            (Dtype::F64.into(), json!("\0\u{0}18446744073709551616")),
            (Dtype::U8.into(), json!(256)),
            (Dtype::U8.into(), json!(-1)),
            (Dtype::U16.into(), json!(0.5)),
            (Dtype::U16.into(), json!("NaN")),
            (Dtype::F32.into(), json!("0x7fc0")),
            (Dtype::F32.into(), json!("0x+fc00000")),
            (Dtype::F64.into(), json!(null)),
            (Dtype::I32.into(), json!(1e300)),
            (Bool, json!(2)),
            (Bool, json!("true")),
            (F16, json!("0x7e010000")),
            (C64, json!([1])),
            (C64, json!([1, 2, 3])),
            (C64, json!("NaN")),
            (Raw(2), json!([1])),
            (Raw(2), json!([1, 256])),
            (Raw(2), json!("AQD/")),
            (Raw(2), json!("A")),
        ];
        for (element_type, value) in cases {
            let said = element(element_type, &value).expect_err("no such element");
            assert!(said.contains("\\u0000") == value.to_string().contains("\\u0000\\u0000"), "{said}");
        }
    }
}
