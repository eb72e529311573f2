//! Configurations in TOML, as people write them.

use super::Config;
use crate::words::plain;

impl Config {
    /// What a TOML document says. An error is what is wrong with it, and where.
    #[doc(hidden)]
    pub fn from_toml(document: &str) -> Result<Self, String> {
        toml::from_str(document).map_err(|error| {
            // Its own text shows the line of the document, and has several of its own.
            let before = error.span().and_then(|span| document.get(..span.start)).unwrap_or_default();
            let (line, column) =
                (before.split('\n').count(), before.chars().rev().take_while(|&c| c != '\n').count() + 1);
            format!("{} at line {line} column {column}", plain(error.message()))
        })
    }
}
