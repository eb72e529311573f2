//! Label images: integers beside an image, in the group `labels` of it.
//!
//! Source: OME-Zarr specifications 0.5 and 0.6, "labels".

use std::collections::BTreeSet;
use std::fmt::Display;

use serde_json::{Map, Value, json};

use super::axes::incompatibility;
use super::versions::of_part;
use crate::config::{Config, Dim, Downsampling, ImageLabel, OmeVersion};
use crate::downsample::Method;
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::words::{count, quoted};

/// The key of a label among what is known of it.
const VALUE: &str = "label-value";

/// The image whose labels a name means, and what these are called: `left/labels/cells`.
pub(crate) fn parts(name: &str) -> Option<(&str, &str)> {
    name.rsplit_once("/labels/")
}

/// What a label image gets that its configuration leaves out, beside an image that has this one: as many levels, whose
/// pixels are labels that there were.
pub(crate) fn complete(config: &mut Config, image: Option<&Config>) {
    config.label.get_or_insert_default();
    if config.pyramid.is_none() {
        let of_image = image.and_then(|image| image.pyramid.clone());
        config.pyramid = of_image.map(|downsampling| Downsampling { method: Method::Mode, ..downsampling });
    }
}

/// Refuses labels that OME-Zarr does not allow beside the image. `levels`: how many each of the two has beside level 0.
pub(crate) fn check(config: &Config, image: &Config, levels: [usize; 2]) -> Result<()> {
    let refuse = |field: &'static str, value: &dyn Display, reason: String| Err(Error::config(field, value, reason));
    if matches!(config.dtype, Dtype::F32 | Dtype::F64) {
        return refuse("dtype", &config.dtype, "labels are integers".to_owned());
    }
    if let Some(why) = incompatibility(&config.dims) {
        return refuse("dims", &"labels", why);
    }
    if config.dims.len() != image.dims.len() {
        let reason = format!("labels have the dimensions of their image, which has {}", image.dims.len());
        return refuse("dims", &count(config.dims.len(), "dimension"), reason);
    }
    for (own, of_image) in config.dims.iter().zip(&image.dims) {
        if let Some(reason) = difference(own, of_image) {
            return refuse("dims", &quoted(&own.name), reason);
        }
    }
    if let Some(Downsampling { method: method @ (Method::Mean | Method::Median), .. }) = config.pyramid {
        let reason = "makes labels that nothing has; mode, decimate, min and max take one that is there";
        return refuse("pyramid.method", &method, reason.to_owned());
    }
    let [own, of_image] = levels;
    if own != of_image {
        let reason = format!("labels have as many levels as their image, which has {of_image} beside level 0");
        return refuse("pyramid", &count(own, "level"), reason);
    }
    config.label.as_ref().map_or(Ok(()), check_label)
}

/// What a dimension of labels has that its image's has not.
fn difference(own: &Dim, image: &Dim) -> Option<String> {
    let Dim { name, size, .. } = image;
    if own.name != *name || own.kind != image.kind {
        return Some(format!("stands where the image has {}", quoted(name)));
    }
    if own.size == Some(1) && *size != Some(1) {
        // What is the same for all of them has its place by itself.
        return None;
    }
    let size_of = |size: Option<u64>| size.map_or("no size yet".to_owned(), |size| format!("the size {size}"));
    if own.size != *size {
        return Some(format!("has {}, and the image {}; or it is 1 long", size_of(own.size), size_of(*size)));
    }
    let place =
        |dim: &Dim| format!("{} × {} from {}", dim.scale, quoted(dim.unit.as_deref().unwrap_or("")), dim.translation);
    let (own, image) = (place(own), place(image));
    (own != image).then(|| format!("is placed {own}, and the image's {image}: viewers would show them apart"))
}

fn check_label(label: &ImageLabel) -> Result<()> {
    refuse_twice("label.colors", label.colors.iter().map(|color| color.value))?;
    refuse_twice("label.properties", label.properties.iter().map(|known| known.value))?;
    if let Some(known) = label.properties.iter().find(|known| known.properties.contains_key(VALUE)) {
        return Err(Error::config("label.properties", known.value, format!("has {VALUE:?} among its properties")));
    }
    // Validators want both lists to name the same labels, and a colour in each entry of the one.
    let has_color = |value: i64| label.colors.iter().any(|color| color.value == value);
    match label.properties.iter().find(|known| !label.colors.is_empty() && !has_color(known.value)) {
        Some(known) => {
            let reason = "has properties and no colour, though other labels have one; give all labels with properties \
                          a colour, or none";
            Err(Error::config("label.colors", known.value, reason))
        }
        None => Ok(()),
    }
}

fn refuse_twice(field: &'static str, mut values: impl Iterator<Item = i64>) -> Result<()> {
    let mut seen = BTreeSet::new();
    match values.find(|value| !seen.insert(*value)) {
        Some(value) => Err(Error::config(field, value, "is there twice")),
        None => Ok(()),
    }
}

/// `image-label`.
pub(super) fn attributes(version: OmeVersion, label: &ImageLabel) -> Value {
    let mut said = Map::new();
    said.extend(of_part(version).map(|version| ("version".to_owned(), version)));
    let colors = label.colors.iter().map(|color| json!({VALUE: color.value, "rgba": color.rgba}));
    let properties = label.properties.iter().map(|known| {
        let mut all = Map::from_iter([(VALUE.to_owned(), json!(known.value))]);
        all.extend(known.properties.clone());
        Value::Object(all)
    });
    let (colors, mut properties): (Vec<_>, Vec<_>) = (colors.collect(), properties.collect());
    // An empty list is not allowed. Where there are both, validators want both to name the same labels.
    if !properties.is_empty() {
        let known: BTreeSet<i64> = label.properties.iter().map(|known| known.value).collect();
        let lacking = label.colors.iter().filter(|color| !known.contains(&color.value));
        properties.extend(lacking.map(|color| json!({VALUE: color.value})));
    }
    for (key, list) in [("colors", colors), ("properties", properties)] {
        if !list.is_empty() {
            said.insert(key.to_owned(), Value::Array(list));
        }
    }
    said.insert("source".to_owned(), json!({"image": "../../"}));
    Value::Object(said)
}

/// `attributes.ome` of the group that holds an image's labels.
pub(crate) fn group_attributes(version: OmeVersion, names: &[&str]) -> Value {
    json!({"version": version, "labels": names})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{LabelColor, LabelProperties};

    fn image() -> Config {
        let dims = vec![Dim::time(None), Dim::y(600).scale(0.5, "micrometer"), Dim::x(800).translation(7.0)];
        Config { dims, dtype: Dtype::U16, pyramid: Some(Downsampling::default()), ..Config::default() }
    }

    fn refused(change: fn(&mut Config)) -> String {
        let mut config = Config { dtype: Dtype::U32, pyramid: None, ..image() };
        complete(&mut config, Some(&image()));
        assert_eq!(config.pyramid.as_ref().map(|downsampling| downsampling.method), Some(Method::Mode));
        assert!(check(&config, &image(), [2, 2]).is_ok());
        change(&mut config);
        check(&config, &image(), [2, 2]).expect_err("refused").to_string()
    }

    #[test]
    fn what_is_no_label_image_of_the_image_is_refused() {
        assert!(refused(|config| config.dtype = Dtype::F32).contains("integers"));
        assert!(refused(|config| drop(config.dims.remove(0))).contains("which has 3"));
        assert!(refused(|config| config.dims[0].name = "z".to_owned()).contains("\"t\""));
        assert!(refused(|config| config.dims[1].size = Some(599)).contains("the image the size 600"));
        assert!(refused(|config| config.dims[0].size = Some(9)).contains("no size yet"));
        assert!(refused(|config| config.dims[2].translation = 0.0).contains("apart"));
        let mean = refused(|config| config.pyramid = Some(Downsampling::default()));
        assert!(mean.contains("mode, decimate"), "{mean}");
        let twice = refused(|config| {
            let color = LabelColor { value: 3, rgba: [0; 4] };
            config.label = Some(ImageLabel { colors: vec![color.clone(), color], ..ImageLabel::default() });
        });
        assert!(twice.contains("label.colors") && twice.contains("twice"), "{twice}");
        let pale = refused(|config| {
            let colors = vec![LabelColor { value: 3, rgba: [0; 4] }];
            let properties = vec![LabelProperties { value: 4, properties: Map::default() }];
            config.label = Some(ImageLabel { colors, properties });
        });
        assert!(pale.contains("label.colors = 4") && pale.contains("no colour"), "{pale}");
    }

    #[test]
    fn a_dimension_that_does_not_matter_to_labels_is_one_long() {
        let mut config = Config { dtype: Dtype::U8, ..image() };
        complete(&mut config, None);
        (config.pyramid, config.dims[0].size) = (None, Some(1));
        assert!(check(&config, &image(), [0, 0]).is_ok());
        assert!(check(&config, &image(), [0, 2]).unwrap_err().to_string().contains("has 2 beside level 0"));
    }

    #[test]
    fn labels_are_told_with_what_is_known_of_them() {
        let class = Map::from_iter([("class".to_owned(), json!("nucleus"))]);
        let label = ImageLabel {
            colors: vec![
                LabelColor { value: -1, rgba: [255, 0, 0, 128] },
                LabelColor { value: 7, rgba: [0, 255, 0, 128] },
            ],
            properties: vec![LabelProperties { value: 7, properties: class }],
        };
        let expected = json!({
            "version": "0.5",
            "colors": [
                {"label-value": -1, "rgba": [255, 0, 0, 128]},
                {"label-value": 7, "rgba": [0, 255, 0, 128]},
            ],
            "properties": [{"label-value": 7, "class": "nucleus"}, {"label-value": -1}],
            "source": {"image": "../../"},
        });
        assert_eq!(attributes(OmeVersion::V0_5, &label), expected);
        let bare = attributes(OmeVersion::V0_6, &ImageLabel::default());
        assert_eq!(bare, json!({"source": {"image": "../../"}}));
    }
}
