//! OME-Zarr metadata, 0.5 and 0.6.
//!
//! Sources: the OME-Zarr specifications 0.5 and 0.6 ("multiscales", "omero", "bioformats2raw.layout") and the OME-XML
//! schema of 2016-06. What the text leaves open is settled by what validators enforce.

pub(crate) mod axes;
pub(crate) mod contrast;
mod conversion;
pub(crate) mod grid;
pub(crate) mod label;
pub(crate) mod levels;
pub(crate) mod multiscales;
mod placement;
pub(crate) mod plate;
pub(crate) mod scene;
pub mod units;
pub(crate) mod versions;
pub(crate) mod xml;

use serde_json::{Value, json};

use crate::config::{Channel, Config, Dim, DimKind, OmeVersion};
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::json::text;
use crate::words::{count, quoted};
pub(crate) use axes::incompatibility;
use grid::PixelGrid;
use multiscales::AxisEntry;

/// More `Channel` elements than this tell no reader anything; the bound keeps a long custom axis from filling memory.
const CHANNEL_ELEMENTS_MAX: u64 = 4096;

/// Refuses what a viewer would stumble over: channels without an axis, colours that are none.
pub(crate) fn validate(config: &Config) -> Result<()> {
    if config.ome == OmeVersion::V0_4 {
        let reason = "an acquisition writes 0.5 or 0.6; repack makes 0.4 of it afterwards";
        return Err(Error::config("ome", config.ome, reason));
    }
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
        Some(Dim { size: Some(size), name, .. }) => {
            format!("dimension {} is {size} long; give as many, or none", quoted(name))
        }
        Some(Dim { size: None, name, .. }) => {
            format!("dimension {} has no size yet; give it one, or give no channels", quoted(name))
        }
    };
    Err(Error::config("channels", count(got, "channel"), reason))
}

fn validate_channel(channel: &Channel) -> Result<()> {
    if !channel.color.is_empty() && rgb(&channel.color).is_none() {
        let reason = format!(
            "the colour of {} must be six hexadecimal digits and nothing else, two each for red, green and blue, as \
             in FF8000",
            quoted(&channel.label)
        );
        return Err(Error::config("channels.color", &channel.color, reason));
    }
    match channel.window {
        Some((start, end)) if !(start.is_finite() && end.is_finite() && start < end) => {
            let reason = format!("the window of {} is two finite numbers, the smaller first", quoted(&channel.label));
            Err(Error::config("channels.window", format_args!("{start} to {end}"), reason))
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

/// `attributes.ome` of an image group with level 0 at `0`, and these beside it. `channels`: those of the configuration,
/// perhaps with windows that were found.
pub(crate) fn image_attributes(config: &Config, channels: &[Channel], levels: &[(&str, &PixelGrid)]) -> Value {
    let finest = PixelGrid::of_dims(&config.dims);
    let all = std::iter::once(("0", &finest)).chain(levels.iter().copied());
    let axes = config.dims.iter().map(AxisEntry::of);
    let mut multiscale = multiscales::image(config.ome, config.name.as_deref(), axes, all);
    if let Some(downsampling) = config.pyramid.as_ref().filter(|_| !levels.is_empty()) {
        multiscales::describe_levels(&mut multiscale, downsampling, multiscales::WRITER);
    }
    let mut ome = json!({"version": config.ome, "multiscales": [multiscale]});
    if !channels.is_empty() {
        let color = |number| Channel::shown_color(channels, number).to_ascii_uppercase();
        let shown = channels.iter().enumerate();
        let channels: Vec<Value> =
            shown.map(|(number, channel)| omero(channel, &color(number), config.dtype)).collect();
        ome["omero"] = json!({"channels": channels});
    }
    if let Some(label) = &config.label {
        ome["image-label"] = label::attributes(config.ome, label);
    }
    ome
}

/// Whether [`image_attributes`] say more of an image than what its dimensions are called.
pub(crate) fn says_more_than_names(config: &Config) -> bool {
    let is_measured = |dim: &Dim| dim.scale != 1.0 || dim.translation != 0.0 || dim.unit.is_some();
    config.dims.iter().any(is_measured) || !config.channels.is_empty() || config.name.is_some()
}

/// What somebody should know whose image can't be one of OME-Zarr.
pub(crate) fn left_out(config: &Config) -> Option<String> {
    let why = incompatibility(&config.dims)?;
    let lost = match says_more_than_names(config) {
        true => "; the sizes, units and places of pixels, channels and the name that were given are not kept",
        false => "",
    };
    Some(format!("no OME-Zarr metadata: {why}{lost}"))
}

fn omero(channel: &Channel, color: &str, dtype: Dtype) -> Value {
    let (lowest, highest) = range(dtype);
    let (start, end) = channel.window.unwrap_or((lowest, highest));
    json!({
        "label": channel.label,
        "color": color,
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

/// The channels of an image, in the order of the array; none where it tells of none.
#[cfg_attr(not(feature = "offline"), allow(dead_code))]
pub(crate) fn channels(ome: &Value) -> Vec<Channel> {
    let of = |channel: &Value, key: &str| text(&channel[key]).map(str::to_owned);
    let channel = |said: &Value| Channel {
        label: of(said, "label").unwrap_or_default(),
        color: of(said, "color").filter(|color| rgb(color).is_some()).unwrap_or_default(),
        window: said["window"]["start"].as_f64().zip(said["window"]["end"].as_f64()),
    };
    ome["omero"]["channels"].as_array().into_iter().flatten().map(channel).collect()
}

/// The smallest and largest pixel value that a viewer should expect.
fn range(dtype: Dtype) -> (f64, f64) {
    // Viewers hold these as doubles anyway.
    dtype.integers().map_or((0.0, 1.0), |integers| (*integers.start() as f64, *integers.end() as f64))
}

/// A JSON number without a needless `.0`.
fn number(value: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT { json!(value as i64) } else { json!(value) }
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
    fn the_image_document() {
        assert_eq!(
            image_attributes(&five_dimensions(), &five_dimensions().channels, &[]),
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
        let ome = image_attributes(&Config { dims, ..Config::default() }, &[], &[]);
        assert_eq!(
            ome["multiscales"][0]["datasets"][0]["coordinateTransformations"],
            json!([
                {"type": "scale", "scale": [0.5, 0.5, 0.25]},
                {"type": "translation", "translation": [0.0, -1200.0, 0.125]},
            ])
        );
        // Without channels and a name, neither is made up.
        assert!(ome.get("omero").is_none() && ome["multiscales"][0].get("name").is_none());
    }

    #[test]
    fn a_window_beyond_the_usual_range_widens_it() {
        let config = Config {
            dtype: Dtype::F32,
            dims: vec![Dim::y(4), Dim::x(4)],
            channels: vec![channel("phase", "FFFFFF", Some((-3.5, 3.5)))],
            ..Config::default()
        };
        let window = &image_attributes(&config, &config.channels, &[])["omero"]["channels"][0]["window"];
        assert_eq!(window, &json!({"start": -3.5, "end": 3.5, "min": -3.5, "max": 3.5}));
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
        assert!(message.contains("1 channel:") && message.contains("2 long"), "{message}");
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
        // One channel needs no dimension of channels.
        let mut one = five_dimensions();
        one.dims.remove(1);
        one.channels.pop();
        assert!(validate(&one).is_ok());
    }

    #[test]
    fn what_is_not_kept_of_other_axes_is_told() {
        let told = |dims: Vec<Dim>| left_out(&Config { dims, ..Config::default() });
        let odd = |z: Dim| vec![Dim::time(2), z, Dim::channel(2), Dim::y(8), Dim::x(8)];
        assert_eq!(told(five_dimensions().dims), None);
        assert!(!told(odd(Dim::z(3))).unwrap().contains("not kept"));
        assert!(told(odd(Dim::z(3).scale(2.0, "micrometer"))).unwrap().ends_with("that were given are not kept"));
    }
}
