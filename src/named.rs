//! What people choose by name: in configurations, on command lines, in messages.

/// Gives an enum that has `ALL` and `name` a `Display` and a `FromStr` by name. `$field` is what an error calls a wrong
/// name's place.
macro_rules! by_name {
    ($type:ident, $field:literal) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::Error;

            fn from_str(text: &str) -> $crate::Result<Self> {
                let found = Self::ALL.iter().find(|value| value.name() == text);
                let names = || Self::ALL.iter().map(|value| value.name()).collect::<Vec<_>>().join(", ");
                let unknown = || format!("possible are {}", names());
                found.copied().ok_or_else(|| $crate::Error::config($field, $crate::words::quoted(text), unknown()))
            }
        }
    };
}

pub(crate) use by_name;

/// Gives an enum without fields its names: `ALL`, `name`, what [`by_name`] gives, and `serde` by name.
macro_rules! named {
    ($type:ident, $field:literal, { $($variant:ident => $name:literal),+ $(,)? }) => {
        impl $type {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            const NAMES: &'static [&'static str] = &[$($name),+];

            /// The name in a configuration and on the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }
        }

        $crate::named::by_name!($type, $field);

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(|_| serde::de::Error::unknown_variant(&text, Self::NAMES))
            }
        }
    };
}

pub(crate) use named;

#[cfg(test)]
mod tests {
    use crate::{Compressor, Dialect, Error, RingFull};

    #[test]
    fn a_value_is_its_name_everywhere() {
        for &dialect in Dialect::ALL {
            assert_eq!(dialect.to_string().parse::<Dialect>().unwrap(), dialect);
            let json = serde_json::to_string(&dialect).unwrap();
            assert_eq!(json, format!("{:?}", dialect.name()));
            assert_eq!(serde_json::from_str::<Dialect>(&json).unwrap(), dialect);
        }
    }

    #[test]
    fn a_name_stands_for_the_usual_settings() {
        for &compressor in Compressor::ALL {
            assert_eq!(compressor.to_string().parse::<Compressor>().unwrap(), compressor);
        }
        for &policy in RingFull::ALL {
            assert_eq!(policy.to_string().parse::<RingFull>().unwrap(), policy);
        }
        assert_eq!("blosc-lz4".parse::<Compressor>().unwrap(), Compressor::default());
        assert_eq!(Compressor::Zstd { level: 7 }.to_string(), "zstd");
        let error = "blosc".parse::<Compressor>().unwrap_err().to_string();
        assert!(error.contains("codec.compressor = \"blosc\"") && error.contains("blosc-noise, blosc-lz4"), "{error}");
        let error = "wait".parse::<RingFull>().unwrap_err().to_string();
        assert_eq!(error, "ring_full = \"wait\": possible are block, drop-newest, error");
    }

    #[test]
    fn a_wrong_name_is_told_with_those_that_are_possible() {
        let error = "zarr4".parse::<Dialect>().unwrap_err();
        assert!(matches!(&error, Error::Config { field: "dialect", value, .. } if value == "\"zarr4\""), "{error}");
        assert!(error.to_string().contains("zarr3-transformer"), "{error}");
        let error = serde_json::from_str::<Dialect>("\"zarr4\"").unwrap_err().to_string();
        assert!(error.contains("zarr4") && error.contains("zarr3-transformer"), "{error}");
    }
}
