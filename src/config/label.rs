//! What the integers of a label image mean.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The labels of an image: what its integers stand for.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ImageLabel {
    /// The colours in which viewers show labels: of none, or at least of all that have properties. Those of others
    /// are up to the viewer.
    pub colors: Vec<LabelColor>,
    /// What is known of labels.
    pub properties: Vec<LabelProperties>,
}

/// The colour of one label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelColor {
    /// The label.
    pub value: i64,
    /// Red, green, blue and opacity.
    pub rgba: [u8; 4],
}

/// What is known of one label.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelProperties {
    /// The label.
    pub value: i64,
    /// Whatever there is to say: `{"class": "nucleus", "area": 12.5}`.
    pub properties: Map<String, Value>,
}
