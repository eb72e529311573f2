//! Units of length and time, as OME-Zarr names them after UDUNITS-2: their symbols, and what lengths are in meters.

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Length {
    pub(crate) number: f64,
    pub(crate) unit: Option<String>,
}

/// A unit: its name, its symbol in OME-XML, and how many meters or seconds it is, as a number and the power of ten that
/// it is multiplied by.
struct Unit(&'static str, &'static str, f64, i32);

/// A unit, those of its name with a prefix, and others.
macro_rules! units {
    ($name:literal, $symbol:literal, $($other:expr),+ $(,)?) => {
        [
            Unit($name, $symbol, 1.0, 0),
            Unit(concat!("yotta", $name), concat!("Y", $symbol), 1.0, 24),
            Unit(concat!("zetta", $name), concat!("Z", $symbol), 1.0, 21),
            Unit(concat!("exa", $name), concat!("E", $symbol), 1.0, 18),
            Unit(concat!("peta", $name), concat!("P", $symbol), 1.0, 15),
            Unit(concat!("tera", $name), concat!("T", $symbol), 1.0, 12),
            Unit(concat!("giga", $name), concat!("G", $symbol), 1.0, 9),
            Unit(concat!("mega", $name), concat!("M", $symbol), 1.0, 6),
            Unit(concat!("kilo", $name), concat!("k", $symbol), 1.0, 3),
            Unit(concat!("hecto", $name), concat!("h", $symbol), 1.0, 2),
            Unit(concat!("deci", $name), concat!("d", $symbol), 1.0, -1),
            Unit(concat!("centi", $name), concat!("c", $symbol), 1.0, -2),
            Unit(concat!("milli", $name), concat!("m", $symbol), 1.0, -3),
            Unit(concat!("micro", $name), concat!("µ", $symbol), 1.0, -6),
            Unit(concat!("nano", $name), concat!("n", $symbol), 1.0, -9),
            Unit(concat!("pico", $name), concat!("p", $symbol), 1.0, -12),
            Unit(concat!("femto", $name), concat!("f", $symbol), 1.0, -15),
            Unit(concat!("atto", $name), concat!("a", $symbol), 1.0, -18),
            Unit(concat!("zepto", $name), concat!("z", $symbol), 1.0, -21),
            Unit(concat!("yocto", $name), concat!("y", $symbol), 1.0, -24),
            $($other),+
        ]
    };
}

/// The lengths that OME-Zarr lists. OME-XML has a symbol for each, in `UnitsLength`.
const LENGTHS: [Unit; 26] = units!(
    "meter",
    "m",
    Unit("angstrom", "Å", 1.0, -10),
    Unit("inch", "in", 0.0254, 0),
    Unit("foot", "ft", 0.3048, 0),
    Unit("yard", "yd", 0.9144, 0),
    Unit("mile", "mi", 1609.344, 0),
    Unit("parsec", "pc", 3.085_677_581_491_367, 16),
);

/// The times, whose symbols are in `UnitsTime`.
const TIMES: [Unit; 23] =
    units!("second", "s", Unit("minute", "min", 60.0, 0), Unit("hour", "h", 3600.0, 0), Unit("day", "d", 86400.0, 0),);

/// What people write besides names and symbols. The micro sign and the Greek letter mu look alike, and both are in use.
const OTHER_NAMES: [(&str, &str); 8] = [
    ("um", "micrometer"),
    ("\u{3bc}m", "micrometer"),
    ("micron", "micrometer"),
    ("microns", "micrometer"),
    ("us", "microsecond"),
    ("\u{3bc}s", "microsecond"),
    ("sec", "second"),
    ("inches", "inch"),
];

/// Lengths as numbers that can be compared: as they are where they have one unit, or none, else in meters. `None` where
/// nobody can tell how long one is to another.
pub(crate) fn comparable<const N: usize>(lengths: &[Length; N]) -> Option<[f64; N]> {
    if lengths.iter().all(|length| length.unit == lengths[0].unit) {
        return Some(std::array::from_fn(|at| lengths[at].number));
    }
    let meters = lengths.each_ref().map(|Length { number, unit }| Some(number * self::meters(unit.as_deref()?)?));
    meters.iter().all(Option::is_some).then(|| meters.map(Option::unwrap_or_default))
}

/// The symbol of a length in OME-XML's `UnitsLength`.
pub fn length_symbol(unit: &str) -> Option<&'static str> {
    find(&LENGTHS, unit).map(|unit| unit.1)
}

/// The symbol of a time in OME-XML's `UnitsTime`.
pub fn time_symbol(unit: &str) -> Option<&'static str> {
    find(&TIMES, unit).map(|unit| unit.1)
}

/// The name of a length by what people, ImageJ and OME-XML write for it.
pub fn length_named(text: &str) -> Option<&'static str> {
    named(&LENGTHS, text)
}

/// The same of a time.
pub fn time_named(text: &str) -> Option<&'static str> {
    named(&TIMES, text)
}

/// A number in another unit; as it is where one of the units is not known, or the one is of length and the other of
/// time.
pub fn convert(number: f64, from: Option<&str>, to: &str) -> f64 {
    let both = |units: &'static [Unit]| Some((find(units, from?)?, find(units, to)?));
    let Some((from, to)) = both(&LENGTHS).or_else(|| both(&TIMES)) else { return number };
    let number = if from.2 == to.2 { number } else { number * from.2 / to.2 };
    // Powers of ten with a positive exponent are exact, and their quotients the nearest there are.
    match from.3 - to.3 {
        power @ 0.. => number * 10_f64.powi(power),
        power => number / 10_f64.powi(-power),
    }
}

/// How many nanometers a unit of length is.
pub(crate) fn nanometers(unit: &str) -> Option<f64> {
    find(&LENGTHS, unit).map(|unit| unit.2 * 10_f64.powi(unit.3 + 9))
}

fn meters(unit: &str) -> Option<f64> {
    find(&LENGTHS, unit).map(|unit| unit.2 * 10_f64.powi(unit.3))
}

fn find(units: &'static [Unit], name: &str) -> Option<&'static Unit> {
    units.iter().find(|unit| unit.0 == name)
}

fn named(units: &'static [Unit], text: &str) -> Option<&'static str> {
    let other = OTHER_NAMES.iter().find(|(other, _)| *other == text).map(|(_, name)| *name);
    let name = other.unwrap_or(text);
    units.iter().find(|unit| unit.0 == name || unit.1 == name).map(|unit| unit.0)
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
    fn units_go_by_many_names_and_change_into_each_other() {
        let lengths = ["um", "\u{b5}m", "\u{3bc}m", "micron", "in", "ft", "fm", "Å", "pixel", "s", "thou"];
        let expected = [&["micrometer"; 4][..], &["inch", "foot", "femtometer", "angstrom"]].concat();
        assert_eq!(lengths.iter().filter_map(|text| length_named(text)).collect::<Vec<_>>(), expected);
        assert_eq!(["min", "us", "d", "m"].map(time_named), [Some("minute"), Some("microsecond"), Some("day"), None]);
        assert_eq!(convert(-1.5, Some("micrometer"), "nanometer"), -1500.0);
        assert_eq!(convert(3.0, Some("nanometer"), "micrometer"), 0.003);
        assert_eq!(convert(2.0, Some("inch"), "micrometer"), 50_800.0);
        assert_eq!(convert(90.0, Some("minute"), "hour"), 1.5);
        for same in [None, Some("second"), Some("pixel")] {
            assert_eq!(convert(3.0, same, "micrometer"), 3.0);
        }
    }

    #[test]
    fn lengths_in_several_units_are_compared_in_meters() {
        let lengths = |units: [Option<&str>; 2]| {
            comparable(&units.map(|unit| Length { number: 2.0, unit: unit.map(str::to_owned) }))
        };
        for same in [None, Some("micrometer"), Some("pixel")] {
            assert_eq!(lengths([same; 2]), Some([2.0, 2.0]));
        }
        let [micrometers, nanometers] = lengths([Some("micrometer"), Some("nanometer")]).unwrap();
        assert!((micrometers / nanometers - 1000.0).abs() < 1e-9);
        for other in [None, Some("pixel"), Some("second")] {
            assert_eq!(lengths([Some("meter"), other]), None);
        }
    }
}
