//! OME-Zarr 0.5 metadata.
//!
//! Sources: the OME-Zarr 0.5 specification ("multiscales", "omero", "bioformats2raw.layout") and the OME-XML schema of
//! 2016-06. What the text leaves open is settled by what validators enforce.

pub(crate) mod grid;
pub(crate) mod levels;
pub(crate) mod plate;
pub(crate) mod xml;

use serde_json::{Map, Value, json};

use crate::config::{Channel, Config, Dim, DimKind};
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use grid::PixelGrid;

const VERSION: &str = "0.5";

/// More `Channel` elements than this tell no reader anything; the bound keeps a long custom axis from filling memory.
const CHANNEL_ELEMENTS_MAX: u64 = 4096;

/// Why these dimensions can't be an OME-Zarr 0.5 image, and what could. `None`: they can.
pub(crate) fn incompatibility(dims: &[Dim]) -> Option<String> {
    const POSSIBLE: &str = "OME-Zarr 0.5 takes 2 to 5 dimensions: at most one of time, then at most one of channel or \
                            another kind, then two or three of space";
    let count = |wanted: fn(DimKind) -> bool| dims.iter().filter(|dim| wanted(dim.kind)).count();
    let space = count(|kind| kind == DimKind::Space);
    let time = count(|kind| kind == DimKind::Time);
    let other = count(|kind| matches!(kind, DimKind::Channel | DimKind::Other));
    let names = || dims.iter().map(|dim| dim.name.as_str()).collect::<Vec<_>>().join(", ");

    let reason = if !(2..=5).contains(&dims.len()) {
        format!("there are {} dimensions ({})", dims.len(), names())
    } else if !(2..=3).contains(&space) {
        format!("{space} of the dimensions ({}) are of space", names())
    } else if time > 1 {
        format!("{time} of the dimensions ({}) are of time", names())
    } else if other > 1 {
        format!("{other} of the dimensions ({}) are of channel or another kind", names())
    } else if !dims.is_sorted_by_key(|dim| rank(dim.kind)) {
        format!("the dimensions stand in the order {}", names())
    } else {
        return None;
    };
    Some(format!("{reason}; {POSSIBLE}"))
}

/// Where a kind of axis stands among the others.
fn rank(kind: DimKind) -> u8 {
    match kind {
        DimKind::Time => 0,
        DimKind::Channel | DimKind::Other => 1,
        DimKind::Space => 2,
    }
}

/// Refuses what a viewer would stumble over: channels without an axis, colours that are none.
pub(crate) fn validate(config: &Config) -> Result<()> {
    if config.channels.is_empty() {
        return Ok(());
    }
    channels_match_dimension(config)?;
    config.channels.iter().try_for_each(validate_channel)
}

fn channels_match_dimension(config: &Config) -> Result<()> {
    let got = config.channels.len();
    let dim = config.dims.iter().find(|dim| dim.kind == DimKind::Channel);
    let reason = match dim {
        None if got == 1 => return Ok(()),
        None => "without a dimension of kind channel there is at most one".to_owned(),
        Some(Dim { size: Some(size), .. }) if *size == got as u64 => return Ok(()),
        Some(Dim { size: Some(size), name, .. }) => format!("dimension {name:?} is {size} long; give as many, or none"),
        Some(Dim { size: None, name, .. }) => {
            format!("dimension {name:?} has no size yet; give it one, or give no channels")
        }
    };
    Err(Error::config("channels", format_args!("{got} channels"), reason))
}

fn validate_channel(channel: &Channel) -> Result<()> {
    if rgb(&channel.color).is_none() {
        let reason = format!("the colour of {:?} is six hexadecimal digits, red, green, blue: FF8000", channel.label);
        return Err(Error::config("channels", &channel.color, reason));
    }
    match channel.window {
        Some((start, end)) if !(start.is_finite() && end.is_finite() && start < end) => {
            let reason = format!("the window of {:?} is two finite numbers, the smaller first", channel.label);
            Err(Error::config("channels", format_args!("({start}, {end})"), reason))
        }
        _ => Ok(()),
    }
}

/// A colour of six hexadecimal digits as a number.
pub(crate) fn rgb(color: &str) -> Option<u32> {
    // `from_str_radix` alone would take a sign.
    let digits = color.len() == 6 && color.bytes().all(|byte| byte.is_ascii_hexdigit());
    digits.then(|| u32::from_str_radix(color, 16).ok()).flatten()
}

/// `attributes.ome` of an image group with level 0 at `0`, and these beside it.
pub(crate) fn image_attributes(config: &Config, levels: &[(&str, &PixelGrid)]) -> Value {
    let mut multiscale = Map::new();
    if let Some(name) = &config.name {
        multiscale.insert("name".to_owned(), json!(name));
    }
    multiscale.insert("axes".to_owned(), config.dims.iter().map(axis).collect());
    let finest = PixelGrid::of_dims(&config.dims);
    let all = std::iter::once(("0", &finest)).chain(levels.iter().copied());
    let dataset = |(path, grid): (&str, &PixelGrid)| json!({"path": path, "coordinateTransformations": grid.render()});
    multiscale.insert("datasets".to_owned(), all.map(dataset).collect());
    if let Some(wish) = config.pyramid.as_ref().filter(|_| !levels.is_empty()) {
        levels::describe(&mut multiscale, wish, "shardwright");
    }
    let mut ome = json!({"version": VERSION, "multiscales": [multiscale]});
    if !config.channels.is_empty() {
        let channels: Vec<Value> = config.channels.iter().map(|channel| omero(channel, config.dtype)).collect();
        ome["omero"] = json!({"channels": channels});
    }
    ome
}

fn axis(dim: &Dim) -> Value {
    let mut axis = json!({"name": dim.name});
    let kind = match dim.kind {
        DimKind::Time => Some("time"),
        DimKind::Channel => Some("channel"),
        DimKind::Space => Some("space"),
        // A custom axis is one whose type is left out.
        DimKind::Other => None,
    };
    if let Some(kind) = kind {
        axis["type"] = json!(kind);
    }
    if let Some(unit) = dim.unit.as_deref().filter(|unit| !unit.is_empty()) {
        axis["unit"] = json!(unit);
    }
    axis
}

fn omero(channel: &Channel, dtype: Dtype) -> Value {
    let (lowest, highest) = range(dtype);
    let (start, end) = channel.window.unwrap_or((lowest, highest));
    json!({
        "label": channel.label,
        "color": channel.color.to_ascii_uppercase(),
        "active": true,
        // Viewers clamp their sliders to min and max, so these must never cut into the window.
        "window": {
            "start": number(start),
            "end": number(end),
            "min": number(lowest.min(start)),
            "max": number(highest.max(end)),
        },
    })
}

/// The smallest and largest pixel value that a viewer should expect.
fn range(dtype: Dtype) -> (f64, f64) {
    match dtype {
        Dtype::U8 => (0.0, f64::from(u8::MAX)),
        Dtype::I8 => (f64::from(i8::MIN), f64::from(i8::MAX)),
        Dtype::U16 => (0.0, f64::from(u16::MAX)),
        Dtype::I16 => (f64::from(i16::MIN), f64::from(i16::MAX)),
        Dtype::U32 => (0.0, f64::from(u32::MAX)),
        Dtype::I32 => (f64::from(i32::MIN), f64::from(i32::MAX)),
        // Viewers hold these as doubles anyway.
        Dtype::U64 => (0.0, u64::MAX as f64),
        Dtype::I64 => (i64::MIN as f64, i64::MAX as f64),
        Dtype::F32 | Dtype::F64 => (0.0, 1.0),
    }
}

/// A JSON number without a needless `.0`.
fn number(value: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT { json!(value as i64) } else { json!(value) }
}

/// `attributes.ome` of a root group that holds several images.
pub(crate) fn collection_attributes() -> Value {
    json!({"version": VERSION, "bioformats2raw.layout": 3})
}

/// `attributes.ome` of the `OME` group beside several images: their paths, in the order of [`xml`].
pub(crate) fn series_attributes(names: &[String]) -> Value {
    json!({"version": VERSION, "series": names})
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(super) fn channel(label: &str, color: &str, window: Option<(f64, f64)>) -> Channel {
        Channel { label: label.to_owned(), color: color.to_owned(), window }
    }

    pub(super) fn five_dimensions() -> Config {
        Config {
            dims: vec![
                Dim::time(None).scale(0.05, "second"),
                Dim::channel(2),
                Dim::z(7).scale(1.5, "micrometer"),
                Dim::y(32).scale(0.325, "micrometer"),
                Dim::x(64).scale(0.325, "micrometer"),
            ],
            channels: vec![channel("GFP", "00ff00", Some((90.0, 1200.5))), channel("R & D", "FF0000", None)],
            name: Some("embryo".to_owned()),
            ..Config::default()
        }
    }

    #[test]
    fn axes_that_ome_zarr_has_room_for() {
        assert_eq!(incompatibility(&five_dimensions().dims), None);
        assert_eq!(incompatibility(&[Dim::y(1), Dim::x(1)]), None);
        assert_eq!(incompatibility(&[Dim::new("p", DimKind::Other, 3), Dim::y(1), Dim::x(1)]), None);
    }

    #[test]
    fn axes_that_it_has_no_room_for_are_named_with_the_reason() {
        let space = |name| Dim::new(name, DimKind::Space, 4);
        let cases = [
            (vec![Dim::x(1)], "there are 1 dimensions (x)"),
            (
                vec![Dim::time(1), Dim::channel(1), Dim::z(1), space("w"), Dim::y(1), Dim::x(1)],
                "there are 6 dimensions",
            ),
            (vec![Dim::time(1), Dim::x(1)], "1 of the dimensions (t, x) are of space"),
            (vec![Dim::z(1), space("w"), Dim::y(1), Dim::x(1)], "4 of the dimensions"),
            (vec![Dim::time(1), Dim::time(1), Dim::y(1), Dim::x(1)], "2 of the dimensions (t, t, y, x) are of time"),
            (vec![Dim::new("p", DimKind::Other, 1), Dim::channel(1), Dim::y(1), Dim::x(1)], "2 of the dimensions"),
            (vec![Dim::channel(1), Dim::time(1), Dim::y(1), Dim::x(1)], "stand in the order c, t, y, x"),
            (vec![Dim::z(1), Dim::time(1), Dim::y(1), Dim::x(1)], "stand in the order z, t, y, x"),
        ];
        for (dims, expected) in cases {
            let reason = incompatibility(&dims).expect("not an OME-Zarr image");
            assert!(reason.contains(expected), "{reason:?} lacks {expected:?}");
            assert!(reason.contains("2 to 5 dimensions"), "{reason:?} doesn't say what is possible");
        }
    }

    #[test]
    fn the_image_document() {
        assert_eq!(
            image_attributes(&five_dimensions(), &[]),
            json!({
                "version": "0.5",
                "multiscales": [{
                    "name": "embryo",
                    "axes": [
                        {"name": "t", "type": "time", "unit": "second"},
                        {"name": "c", "type": "channel"},
                        {"name": "z", "type": "space", "unit": "micrometer"},
                        {"name": "y", "type": "space", "unit": "micrometer"},
                        {"name": "x", "type": "space", "unit": "micrometer"},
                    ],
                    "datasets": [{
                        "path": "0",
                        "coordinateTransformations": [{"type": "scale", "scale": [0.05, 1.0, 1.5, 0.325, 0.325]}],
                    }],
                }],
                "omero": {"channels": [
                    {"label": "GFP", "color": "00FF00", "active": true,
                     "window": {"start": 90, "end": 1200.5, "min": 0, "max": 65535}},
                    {"label": "R & D", "color": "FF0000", "active": true,
                     "window": {"start": 0, "end": 65535, "min": 0, "max": 65535}},
                ]},
            })
        );
    }

    #[test]
    fn the_place_of_the_first_pixel_stands_behind_the_scale() {
        let dims = vec![
            Dim::time(None).scale(0.5, "second"),
            Dim::y(4).scale(0.5, "micrometer").translation(-1200.0),
            Dim::x(4).scale(0.25, "micrometer").translation(0.125),
        ];
        let ome = image_attributes(&Config { dims, ..Config::default() }, &[]);
        assert_eq!(
            ome["multiscales"][0]["datasets"][0]["coordinateTransformations"],
            json!([
                {"type": "scale", "scale": [0.5, 0.5, 0.25]},
                {"type": "translation", "translation": [0.0, -1200.0, 0.125]},
            ])
        );
    }

    #[test]
    fn a_window_beyond_the_usual_range_widens_it() {
        let config = Config {
            dtype: Dtype::F32,
            dims: vec![Dim::y(4), Dim::x(4)],
            channels: vec![channel("phase", "FFFFFF", Some((-3.5, 3.5)))],
            ..Config::default()
        };
        let window = &image_attributes(&config, &[])["omero"]["channels"][0]["window"];
        assert_eq!(window, &json!({"start": -3.5, "end": 3.5, "min": -3.5, "max": 3.5}));
    }

    #[test]
    fn without_channels_and_name_neither_is_made_up() {
        let config = Config { dims: vec![Dim::y(4), Dim::x(4)], ..Config::default() };
        let ome = image_attributes(&config, &[]);
        assert!(ome.get("omero").is_none() && ome["multiscales"][0].get("name").is_none());
    }

    #[test]
    fn wrong_channels_are_refused() {
        let refused = |change: fn(&mut Config)| {
            let mut config = five_dimensions();
            change(&mut config);
            validate(&config).expect_err("refused").to_string()
        };
        assert!(validate(&five_dimensions()).is_ok());
        let message = refused(|config| drop(config.channels.pop()));
        assert!(message.contains("1 channels") && message.contains("2 long"), "{message}");
        let message = refused(|config| drop(config.dims.remove(1)));
        assert!(message.contains("at most one"), "{message}");
        for color in ["red", "#FF000", "+FF000", "FF00001", "é0000"] {
            let mut config = five_dimensions();
            config.channels[0].color = color.to_owned();
            let message = validate(&config).expect_err("not a colour").to_string();
            assert!(message.contains(color) && message.contains("six hexadecimal"), "{message}");
        }
        refused(|config| config.channels[1].window = Some((5.0, 5.0)));
        refused(|config| config.channels[1].window = Some((0.0, f64::NAN)));
    }

    #[test]
    fn one_channel_needs_no_channel_dimension() {
        let config = Config {
            dims: vec![Dim::time(None), Dim::y(4), Dim::x(4)],
            channels: vec![channel("DAPI", "0000FF", None)],
            ..Config::default()
        };
        assert!(validate(&config).is_ok());
    }
}
