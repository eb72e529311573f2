//! Units of length and time, as OME-Zarr names them after UDUNITS-2: their symbols, and what lengths are in meters.

/// A distance in a unit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Length {
    pub(crate) number: f64,
    pub(crate) unit: Option<String>,
}

/// Metric prefixes: their names, their symbols, and the power of ten.
const PREFIXES: [(&str, &str, i32); 21] = [
    ("", "", 0),
    ("yotta", "Y", 24),
    ("zetta", "Z", 21),
    ("exa", "E", 18),
    ("peta", "P", 15),
    ("tera", "T", 12),
    ("giga", "G", 9),
    ("mega", "M", 6),
    ("kilo", "k", 3),
    ("hecto", "h", 2),
    ("deca", "da", 1),
    ("deci", "d", -1),
    ("centi", "c", -2),
    ("milli", "m", -3),
    ("micro", "µ", -6),
    ("nano", "n", -9),
    ("pico", "p", -12),
    ("femto", "f", -15),
    ("atto", "a", -18),
    ("zepto", "z", -21),
    ("yocto", "y", -24),
];

/// Lengths as numbers that can be compared: as they are where they have one unit, or none, else in meters.
///
/// # Errors
///
/// The units, for a sentence, where nobody can tell how long one is to another.
pub(crate) fn comparable<const N: usize>(lengths: &[Length; N]) -> Result<[f64; N], String> {
    if lengths.iter().all(|length| length.unit == lengths[0].unit) {
        return Ok(std::array::from_fn(|at| lengths[at].number));
    }
    let meters = lengths.each_ref().map(|Length { number, unit }| Some(number * self::meters(unit.as_deref()?)?));
    if meters.iter().any(Option::is_none) {
        let name = |length: &Length| length.unit.as_ref().map_or("no unit".to_owned(), |unit| format!("{unit:?}"));
        return Err(lengths.iter().map(name).collect::<Vec<_>>().join(", "));
    }
    Ok(meters.map(Option::unwrap_or_default))
}

/// The symbol of a length in OME-XML's `UnitsLength`.
pub(super) fn length_symbol(unit: &str) -> Option<String> {
    length(unit).map(|(symbol, ..)| symbol)
}

/// How many nanometers a unit of length is.
pub(crate) fn nanometers(unit: &str) -> Option<f64> {
    length(unit).map(|(_, number, power)| number * 10_f64.powi(power + 9))
}

fn meters(unit: &str) -> Option<f64> {
    length(unit).map(|(_, number, power)| number * 10_f64.powi(power))
}

/// The symbol of a length, and how many meters it is, as a number and the power of ten that it is multiplied by.
fn length(unit: &str) -> Option<(String, f64, i32)> {
    let (symbol, meters, power) = match unit {
        "angstrom" => ("Å", 1.0, -10),
        "inch" => ("in", 0.0254, 0),
        "foot" => ("ft", 0.3048, 0),
        "yard" => ("yd", 0.9144, 0),
        "mile" => ("mi", 1609.344, 0),
        "parsec" => ("pc", 3.085_677_581_491_367, 16),
        _ => return prefixed(unit, "meter", "m").map(|(symbol, power)| (symbol, 1.0, power)),
    };
    Some((symbol.to_owned(), meters, power))
}

/// The symbol of a time in OME-XML's `UnitsTime`.
pub(super) fn time_symbol(unit: &str) -> Option<String> {
    let symbol = match unit {
        "minute" => "min",
        "hour" => "h",
        "day" => "d",
        _ => return prefixed(unit, "second", "s").map(|(symbol, _)| symbol),
    };
    Some(symbol.to_owned())
}

/// The symbol of a unit that is `base`, alone or with a metric prefix, and the prefix's power of ten.
fn prefixed(unit: &str, base: &str, symbol: &str) -> Option<(String, i32)> {
    let wanted = unit.strip_suffix(base)?;
    let (_, prefix, power) = PREFIXES.iter().find(|(name, ..)| *name == wanted)?;
    Some((format!("{prefix}{symbol}"), *power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_in_nanometers_are_exact() {
        let units = ["angstrom", "nanometer", "micrometer", "millimeter", "centimeter", "meter", "inch", "second"];
        let expected = [Some(0.1), Some(1.0), Some(1e3), Some(1e6), Some(1e7), Some(1e9), Some(2.54e7), None];
        assert_eq!(units.map(nanometers), expected);
    }

    #[test]
    fn lengths_in_several_units_are_compared_in_meters() {
        let lengths = |units: [Option<&str>; 2]| {
            comparable(&units.map(|unit| Length { number: 2.0, unit: unit.map(str::to_owned) }))
        };
        for same in [None, Some("micrometer"), Some("pixel")] {
            assert_eq!(lengths([same; 2]), Ok([2.0, 2.0]));
        }
        let [micrometers, nanometers] = lengths([Some("micrometer"), Some("nanometer")]).unwrap();
        assert!((micrometers / nanometers - 1000.0).abs() < 1e-9);
        for (other, told) in [(None, "no unit"), (Some("pixel"), "\"pixel\""), (Some("second"), "\"second\"")] {
            assert_eq!(lengths([Some("meter"), other]), Err(format!("\"meter\", {told}")));
        }
    }
}
