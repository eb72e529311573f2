//! Fill values are what was said, exactly, or refused.

use std::sync::Arc;

use serde_json::Value;
use shardwright::{Acquisition, Config, Dtype, FillValue, Memory};

use crate::common::tiny;

/// Of 16 rows and columns, 8 bytes a pixel.
const FRAME_BYTES: usize = 16 * 16 * 8;

/// None of these is a 64-bit float.
#[test]
fn an_integer_is_the_fill_value_exactly_by_every_door() {
    let odd = 9_007_199_254_740_993_i64;
    let cases: [(Dtype, FillValue, [u8; 8]); 4] = [
        (Dtype::U64, u64::MAX.into(), u64::MAX.to_ne_bytes()),
        (Dtype::I64, i64::MAX.into(), i64::MAX.to_ne_bytes()),
        (Dtype::I64, odd.into(), odd.to_ne_bytes()),
        (Dtype::I64, (-odd).into(), (-odd).to_ne_bytes()),
    ];
    for (dtype, fill_value, element) in cases {
        let config = Config { dtype, fill_value, ..tiny(None, 8) };
        let json = serde_json::to_string(&config).unwrap();
        assert!(json.contains(&format!("\"fill_value\":{fill_value},")), "{json}");
        let memory = Arc::new(Memory::new());
        let acquisition = Acquisition::create_in(memory.clone(), serde_json::from_str(&json).unwrap()).unwrap();
        let mut frame = vec![1; FRAME_BYTES];
        acquisition.read_frame(0, &mut frame).unwrap();
        assert_eq!(frame, element.repeat(FRAME_BYTES / 8), "{fill_value}");
        let _ = acquisition.append(&frame).unwrap();
        acquisition.finish().unwrap();
        let document: Value = serde_json::from_slice(&memory.read("0/zarr.json").unwrap()).unwrap();
        assert_eq!(document["fill_value"].to_string(), fill_value.to_string());
    }
}

#[test]
fn a_number_that_the_type_does_not_hold_is_refused() {
    let refused: [(Dtype, FillValue, &str); 7] = [
        (Dtype::U8, (-1).into(), "fill_value = -1: uint8 holds whole numbers from 0 to 255"),
        (Dtype::U64, u64::MAX.into(), ""),
        // One above the largest, which is no float.
        (
            Dtype::U64,
            2_f64.powi(64).into(),
            "fill_value = 18446744073709551616: uint64 holds whole numbers from 0 to 18446744073709551615",
        ),
        (
            Dtype::I64,
            2_f64.powi(63).into(),
            "fill_value = 9223372036854775808: int64 holds whole numbers from -9223372036854775808 to \
             9223372036854775807",
        ),
        (
            Dtype::F32,
            16_777_217.into(),
            "fill_value = 16777217: float32 does not hold it exactly; the nearest number that it holds is 16777216",
        ),
        (Dtype::F32, 16_777_217.0.into(), ""),
        (
            Dtype::F64,
            9_007_199_254_740_993_i64.into(),
            "fill_value = 9007199254740993: float64 does not hold it exactly; the nearest number that it holds is \
             9007199254740992",
        ),
    ];
    for (dtype, fill_value, expected) in refused {
        let config = Config { dtype, fill_value, ..tiny(None, 8) };
        let created = Acquisition::create_in(Arc::new(Memory::new()), config);
        let said = created.map_or_else(|error| error.to_string(), |_| String::new());
        assert_eq!(said, expected, "{dtype}");
    }
}
