//! Floating-point numbers of 16 bits: IEEE 754 binary16, which Rust has no type for yet.

/// Bits of the fraction.
const FRACTION: i32 = 10;
/// The exponent of the smallest normal number, and of the largest.
const EXPONENTS: std::ops::RangeInclusive<i32> = -14..=15;

/// The bits of the number nearest to this one, of two the even one.
pub(super) fn from_f64(number: f64) -> u16 {
    let sign = if number.is_sign_negative() { 0x8000 } else { 0 };
    if number.is_nan() {
        return sign | 0x7E00;
    }
    let magnitude = number.abs();
    // The distance of neighbours there, of which a whole number is an exact f64.
    let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(*EXPONENTS.start());
    if exponent > *EXPONENTS.end() {
        return sign | 0x7C00;
    }
    let steps = (magnitude / f64::powi(2.0, exponent - FRACTION)).round_ties_even() as u16;
    // One more step than a fraction has carries into the exponent, as it should; past the last one is infinity.
    let biased = (exponent - EXPONENTS.start()) as u16;
    sign | ((biased << FRACTION) + steps)
}

pub(super) fn to_f64(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> FRACTION & 0x1F), f64::from(bits & 0x3FF));
    sign * match (exponent, bits & 0x3FF) {
        (0x1F, 0) => f64::INFINITY,
        (0x1F, _) => f64::NAN,
        (0, _) => fraction * f64::powi(2.0, EXPONENTS.start() - FRACTION),
        _ => (1024.0 + fraction) * f64::powi(2.0, exponent + EXPONENTS.start() - 1 - FRACTION),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_its_own_nearest() {
        for bits in 0..=u16::MAX {
            let number = to_f64(bits);
            if number.is_nan() {
                assert_eq!(from_f64(number) & 0x7FFF, 0x7E00);
            } else {
                assert_eq!(from_f64(number), bits, "{bits:#06x} {number}");
            }
        }
    }

    #[test]
    fn numbers_between_two_go_to_the_nearer_one_and_to_the_even_one() {
        for bits in 0..0x7BFF_u16 {
            let (low, high) = (to_f64(bits), to_f64(bits + 1));
            let middle = (low + high) / 2.0;
            assert_eq!(from_f64(middle), bits + bits % 2, "{bits:#06x}");
            assert_eq!(from_f64(f64::from_bits(middle.to_bits() - 1)), bits);
            assert_eq!(from_f64(f64::from_bits(middle.to_bits() + 1)), bits + 1);
        }
        assert_eq!([65519.99, 65520.0, 1e300, f64::MIN_POSITIVE].map(from_f64), [0x7BFF, 0x7C00, 0x7C00, 0]);
        assert_eq!([1.0, -2.0, 65504.0].map(from_f64), [0x3C00, 0xC000, 0x7BFF]);
    }
}
