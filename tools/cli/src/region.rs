//! `--region`: which part of an array.

use std::fmt;
use std::str::FromStr;

use shardwright::words::{count, quoted};

use crate::failure::Failure;

/// A part of an array as words on the command line: a span for each dimension, or for some by their names.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RegionArg {
    spans: Vec<(Option<String>, Span)>,
}

/// `3:7`, `3:`, `:7`, `:`, or `3` alone.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Span {
    from: u64,
    to: Option<u64>,
}

impl FromStr for RegionArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let span = |text: &str| match text.split_once('=') {
            Some((name, span)) => Ok((Some(name.trim().to_owned()), span.parse()?)),
            None => Ok((None, text.parse()?)),
        };
        let spans: Vec<(Option<String>, Span)> = text.split(',').map(span).collect::<Result<_, String>>()?;
        if spans.iter().any(|span| span.0.is_some()) && spans.iter().any(|span| span.0.is_none()) {
            return Err("either all spans have a name, such as t=0:10,x=5:9, or none has".into());
        }
        let names: Vec<&String> = spans.iter().filter_map(|span| span.0.as_ref()).collect();
        if let Some((_, name)) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
            return Err(format!("region names {name} twice"));
        }
        Ok(Self { spans })
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{} is no span; possible are 3:7, 3:, :7, : and 3", quoted(text));
        let number = |digits: &str| digits.trim().parse::<u64>().map_err(|_| wrong());
        let bound = |digits: &str| if digits.trim().is_empty() { Ok(None) } else { number(digits).map(Some) };
        match text.split_once(':') {
            Some((from, to)) => Ok(Self { from: bound(from)?.unwrap_or(0), to: bound(to)? }),
            None => {
                let only = number(text)?;
                Ok(Self { from: only, to: Some(only.checked_add(1).ok_or_else(wrong)?) })
            }
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to {
            Some(to) if to == self.from.saturating_add(1) => write!(f, "{}", self.from),
            Some(to) => write!(f, "{}:{to}", self.from),
            None => write!(f, "{}:", self.from),
        }
    }
}

impl RegionArg {
    /// Start and shape of the region in an array of `shape` whose dimensions have these names.
    pub(super) fn within(&self, shape: &[u64], names: &[&str]) -> Result<(Vec<u64>, Vec<u64>), Failure> {
        let mut start = vec![0; shape.len()];
        let mut extent = shape.to_vec();
        let by_name = self.spans.iter().any(|span| span.0.is_some());
        if !by_name && self.spans.len() != shape.len() {
            return Err(Failure::Usage(format!(
                "--region has {}, but the array has {}: {}",
                count(self.spans.len(), "span"),
                count(shape.len(), "dimension"),
                names.join(", ")
            )));
        }
        for (at, (name, span)) in self.spans.iter().enumerate() {
            let dim = match name {
                None => at,
                Some(name) => names.iter().position(|known| known == name).ok_or_else(|| {
                    let known = names.join(", ");
                    Failure::Usage(format!("--region names {name}, but the array's dimensions are {known}"))
                })?,
            };
            if name.is_some() && names.iter().filter(|name| **name == names[dim]).count() > 1 {
                let reason = "which several dimensions are called; give a span for each dimension";
                return Err(Failure::Usage(format!("--region names {}, {reason}", names[dim])));
            }
            let to = span.to.unwrap_or(shape[dim]);
            if span.from >= to || to > shape[dim] {
                return Err(Failure::Usage(format!(
                    "--region {}={span}: possible are spans within 0:{} that hold something",
                    names[dim], shape[dim]
                )));
            }
            (start[dim], extent[dim]) = (span.from, to - span.from);
        }
        Ok((start, extent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(text: &str) -> Result<(Vec<u64>, Vec<u64>), Failure> {
        text.parse::<RegionArg>().map_err(Failure::Usage)?.within(&[10, 20, 30], &["t", "y", "x"])
    }

    #[test]
    fn spans_are_given_in_order_or_by_name() {
        assert_eq!(within("2:5,:,7:").unwrap(), (vec![2, 0, 7], vec![3, 20, 23]));
        assert_eq!(within("4,:20,29").unwrap(), (vec![4, 0, 29], vec![1, 20, 1]));
        assert_eq!(within("x=3:4").unwrap(), (vec![0, 0, 3], vec![10, 20, 1]));
        assert_eq!(within("x=3:4, t=9").unwrap(), (vec![9, 0, 3], vec![1, 20, 1]));
    }

    #[test]
    fn spans_that_can_t_be_are_refused() {
        for (text, evidence) in [
            ("1:2,3:4", "2 spans, but the array has 3"),
            ("0:11,:,:", "--region t=0:11:"),
            ("t=10", "--region t=10:"),
            ("1:2", "--region has 1 span,"),
            ("5:5,:,:", "hold something"),
            ("z=1", "dimensions are t, y, x"),
            ("t=1,:,:", "either all spans"),
            ("y=1,y=2", "region names y twice"),
            ("x=1, t=2, x =1", "region names x twice"),
            ("a:b,:,:", "no span"),
            ("-1:2,:,:", "no span"),
        ] {
            let refused = within(text).unwrap_err().to_string();
            assert!(refused.contains(evidence), "{text}: {refused}");
        }
    }
}
