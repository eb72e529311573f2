//! Fill values: from a document to the bytes of one element, and from there to rows.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Value, json};

use super::half;
use crate::config::FillValue;
use crate::dtype::{Dtype, ElementType};
use crate::json;

/// In which Zarr v2 has fill values of raw bytes. Readers in Python let bits behind the last byte be anything.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// The little-endian bytes of one element, or why the value is none.
///
/// Zarr v3 core, "Fill value list": floats may also be `"NaN"`, `"Infinity"`, `"-Infinity"` or their bits in
/// hexadecimal, complex numbers are pairs of floats, and raw bytes a list of numbers. Zarr v2 and zarr-python have raw
/// bytes in Base64.
pub(crate) fn element(element: ElementType, value: &Value) -> Result<Vec<u8>, String> {
    let bytes = match element {
        ElementType::Number(Dtype::F32 | Dtype::F64) | ElementType::F16 => float(value, element.size()),
        ElementType::Number(dtype) => integer(dtype, value),
        ElementType::Bool => truth(value),
        ElementType::C64 | ElementType::C128 => complex(value, element.number_bytes()),
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
        Value::String(text) => BASE64.decode(text).ok()?,
        _ => return None,
    };
    (bytes.len() == length).then_some(bytes)
}

/// The value of an element as a document of Zarr v3 has it. Of a NaN only that it is one.
pub(crate) fn to_json(element: ElementType, bytes: &[u8]) -> Value {
    match element {
        ElementType::Number(dtype) => json!(FillValue::of_element(dtype, bytes)),
        ElementType::Bool => json!(bytes != [0]),
        ElementType::F16 => json!(FillValue::Float(half::to_f64(u16::from_le_bytes([bytes[0], bytes[1]])))),
        ElementType::C64 => pair(bytes, Dtype::F32, to_json),
        ElementType::C128 => pair(bytes, Dtype::F64, to_json),
        ElementType::Raw(_) => json!(bytes),
    }
}

/// The same in an array of Zarr v3, which has words for the bits of any NaN.
pub(crate) fn to_json_v3(element: ElementType, bytes: &[u8]) -> Value {
    match element {
        ElementType::C64 => pair(bytes, Dtype::F32, to_json_v3),
        ElementType::C128 => pair(bytes, Dtype::F64, to_json_v3),
        _ if is_as_told(element, bytes) => to_json(element, bytes),
        _ => {
            let digits: String = bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect();
            json!(format!("0x{digits}"))
        }
    }
}

fn pair(bytes: &[u8], part: Dtype, to_json: fn(ElementType, &[u8]) -> Value) -> Value {
    bytes.chunks(part.size()).map(|bytes| to_json(part.into(), bytes)).collect()
}

/// What readers take an element for by what [`to_json`] tells of it: of a NaN, that is no bits.
pub(crate) fn as_told(element_type: ElementType, bytes: &[u8]) -> Vec<u8> {
    element(element_type, &to_json(element_type, bytes)).unwrap_or_else(|_| bytes.to_vec())
}

/// Whether they take it for what it is.
pub(crate) fn is_as_told(element_type: ElementType, bytes: &[u8]) -> bool {
    as_told(element_type, bytes) == bytes
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

/// What to say of a complex fill value with an infinite part or a negative zero in a document of Zarr v2 or of a draft:
/// zarr-python 2 multiplies the imaginary part by i, which makes another number of it.
pub(crate) fn note_of_complex(element: ElementType, fill: &[u8], format: &str) -> Option<String> {
    let parts: Vec<f64> = match element {
        ElementType::C64 => fill.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes).into()).collect(),
        ElementType::C128 => fill.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect(),
        _ => return None,
    };
    let is_odd = |part: &f64| part.is_infinite() || (*part == 0.0 && part.is_sign_negative());
    let value = json::render_line(&to_json(element, fill));
    let note = || format!("has the fill value {value}, which zarr-python 2 reads from {format} as another number");
    parts.iter().any(is_odd).then(note)
}

/// The value of an element as a document of Zarr v2 has it.
pub(crate) fn to_json_v2(element: ElementType, bytes: &[u8]) -> Value {
    match element {
        ElementType::Raw(_) => Value::from(BASE64.encode(bytes)),
        _ => to_json(element, bytes),
    }
}

pub(crate) fn row(row: &mut [u8], element: &[u8]) {
    if element.iter().all(|&byte| byte == element[0]) {
        row.fill(element[0]);
    } else {
        row.chunks_exact_mut(element.len()).for_each(|pixel| pixel.copy_from_slice(element));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use ElementType::{Bool, C64, C128, F16, Raw};

    #[test]
    fn complex_values_that_zarr_python_2_reads_as_others_are_told() {
        let told = |real: f64, imaginary: f64| {
            let fill = [real.to_le_bytes(), imaginary.to_le_bytes()].concat();
            note_of_complex(ElementType::C128, &fill, "zarr2").is_some()
        };
        assert!(told(0.0, f64::INFINITY) && told(f64::NEG_INFINITY, 1.0) && told(-0.0, -0.0));
        assert!(!told(1.0, -2.0) && !told(0.0, 0.0) && !told(f64::NAN, 1.0));
    }

    #[test]
    fn fill_values_of_every_spelling() {
        let cases: [(ElementType, Value, Vec<u8>); 23] = [
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
            (Raw(1), json!("Zh=="), vec![b'f']),
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
        for text in ["Z", "Zg=", "Z===", "====", "Zg==Zg==", "Zm9v!m8=", "Z=9v"] {
            assert!((0..8).all(|bytes| raw(&json!(text), bytes).is_none()), "{text}");
        }
    }
}
