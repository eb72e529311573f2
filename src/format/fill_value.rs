//! Fill values: from a document to the bytes of one element, and from there to rows.

use serde_json::Value;

use crate::dtype::Dtype;

/// The little-endian bytes of one element, or why the value is none.
///
/// Zarr v3 core, "Fill value list": floats may also be `"NaN"`, `"Infinity"`, `"-Infinity"` or their bits in
/// hexadecimal.
pub(crate) fn element(dtype: Dtype, value: &Value) -> Result<Vec<u8>, String> {
    let wrong = || format!("fill_value {value} is no {}", dtype.zarr_name());
    let bytes = match dtype {
        Dtype::F32 => float(value, 4)
            .ok_or_else(wrong)?
            .map_or_else(|bits| (bits as u32).to_le_bytes(), |number| (number as f32).to_le_bytes())
            .to_vec(),
        Dtype::F64 => float(value, 8).ok_or_else(wrong)?.map_or_else(u64::to_le_bytes, f64::to_le_bytes).to_vec(),
        _ => integer(dtype, value).ok_or_else(wrong)?,
    };
    Ok(bytes)
}

/// A number, or the bits of one.
fn float(value: &Value, size: usize) -> Option<Result<f64, u64>> {
    match value {
        // A zero stands before a token that JSON does not have: see `fs::document`.
        Value::Number(number) => number.as_f64().map(Ok),
        Value::String(text) => match text.trim_start_matches('\0') {
            "NaN" => Some(Ok(f64::NAN)),
            "Infinity" => Some(Ok(f64::INFINITY)),
            "-Infinity" => Some(Ok(f64::NEG_INFINITY)),
            _ => bits(text, size).map(Err),
        },
        _ => None,
    }
}

fn bits(text: &str, size: usize) -> Option<u64> {
    let digits = text.strip_prefix("0x")?;
    let plain = digits.len() == 2 * size && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

fn integer(dtype: Dtype, value: &Value) -> Option<Vec<u8>> {
    let number = match value {
        Value::Number(number) => whole(number)?,
        Value::String(text) => {
            // Bits, so the sign is theirs to tell.
            let bits = bits(text, dtype.size())?;
            return Some(bits.to_le_bytes()[..dtype.size()].to_vec());
        }
        _ => return None,
    };
    Some(match dtype {
        Dtype::U8 => u8::try_from(number).ok()?.to_le_bytes().to_vec(),
        Dtype::I8 => i8::try_from(number).ok()?.to_le_bytes().to_vec(),
        Dtype::U16 => u16::try_from(number).ok()?.to_le_bytes().to_vec(),
        Dtype::I16 => i16::try_from(number).ok()?.to_le_bytes().to_vec(),
        Dtype::U32 => u32::try_from(number).ok()?.to_le_bytes().to_vec(),
        Dtype::I32 => i32::try_from(number).ok()?.to_le_bytes().to_vec(),
        Dtype::U64 => u64::try_from(number).ok()?.to_le_bytes().to_vec(),
        Dtype::I64 => i64::try_from(number).ok()?.to_le_bytes().to_vec(),
        Dtype::F32 | Dtype::F64 => return None,
    })
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

/// The value of an element as a document has it. Of a NaN only that it is one.
pub(crate) fn to_json(dtype: Dtype, element: &[u8]) -> Value {
    let mut wide = [0; 8];
    wide[..element.len()].copy_from_slice(element);
    let bits = u64::from_le_bytes(wide);
    let signed = |bytes: usize| (bits << (64 - 8 * bytes)).cast_signed() >> (64 - 8 * bytes);
    let float = |number: f64| match number {
        _ if number.is_nan() => Value::from("NaN"),
        _ if number.is_infinite() => Value::from(if number > 0.0 { "Infinity" } else { "-Infinity" }),
        _ => Value::from(number),
    };
    match dtype {
        Dtype::F32 => float(f64::from(f32::from_bits(bits as u32))),
        Dtype::F64 => float(f64::from_bits(bits)),
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => Value::from(signed(dtype.size())),
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => Value::from(bits),
    }
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

    #[test]
    fn fill_values_of_every_spelling() {
        let cases = [
            (Dtype::U16, json!(513), vec![1, 2]),
            (Dtype::U16, json!(0.0), vec![0, 0]),
            (Dtype::I16, json!(-2), vec![0xFE, 0xFF]),
            (Dtype::I8, json!("0xff"), vec![0xFF]),
            (Dtype::U64, json!(u64::MAX), vec![0xFF; 8]),
            (Dtype::I64, json!(i64::MIN), i64::MIN.to_le_bytes().to_vec()),
            (Dtype::F32, json!(1.5), 1.5f32.to_le_bytes().to_vec()),
            (Dtype::F32, json!("0x7fc00001"), 0x7fc0_0001_u32.to_le_bytes().to_vec()),
            (Dtype::F64, json!("-Infinity"), f64::NEG_INFINITY.to_le_bytes().to_vec()),
            (Dtype::F64, json!("0x7ff8000000000001"), 0x7ff8_0000_0000_0001_u64.to_le_bytes().to_vec()),
        ];
        for (dtype, value, expected) in cases {
            assert_eq!(element(dtype, &value).as_ref(), Ok(&expected), "{dtype} {value}");
            if !value.is_string() {
                let back = to_json(dtype, &expected);
                assert_eq!(element(dtype, &back), Ok(expected), "{dtype} {value} {back}");
            }
        }
        let nan = element(Dtype::F32, &json!("NaN")).expect("a float");
        assert!(f32::from_le_bytes(nan.try_into().expect("four bytes")).is_nan());
    }

    #[test]
    fn fill_values_that_are_none() {
        for (dtype, value) in [
            (Dtype::U8, json!(256)),
            (Dtype::U8, json!(-1)),
            (Dtype::U16, json!(0.5)),
            (Dtype::U16, json!("NaN")),
            (Dtype::F32, json!("0x7fc0")),
            (Dtype::F32, json!("0x+fc00000")),
            (Dtype::F64, json!(null)),
            (Dtype::I32, json!(1e300)),
        ] {
            assert!(element(dtype, &value).is_err(), "{dtype} {value}");
        }
    }
}
