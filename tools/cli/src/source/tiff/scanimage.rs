//! ScanImage: the pages are channels, fastest, then frames, then slices, as its text in the field `Software` says.

use super::super::axes::{Axes, OuterAxis};
use super::pages::in_order;
use super::planes::RecordingFacts;
use super::stack::Stack;
use crate::failure::Failure;

/// Whether a text is one of ScanImage's.
pub(super) fn is_scanimage(software: &str) -> bool {
    software.starts_with("SI.")
}

/// The planes of a file. Where its text does not say what they are, they become a movie.
pub(super) fn find(stack: Stack) -> Result<RecordingFacts, Failure> {
    let pages = stack.full_pages().count() as u64;
    let axes = axes(&stack.software, pages);
    let is_known = axes.is_some();
    let mut found = in_order(stack, axes.unwrap_or_else(|| Axes::movie(pages)))?;
    if !is_known {
        found.notes.push("ScanImage's text does not say what the pages are; they become one time axis".to_owned());
    }
    Ok(found)
}

fn axes(software: &str, pages: u64) -> Option<Axes> {
    let value = |key: &str| {
        let line = software.lines().find_map(|line| line.trim().strip_prefix(key)?.trim_start().strip_prefix('='));
        line.map(str::trim)
    };
    let channels = value("SI.hChannels.channelSave")?;
    let channels =
        channels.trim_matches(['[', ']']).split([';', ',', ' ']).filter(|text| !text.is_empty()).count() as u64;
    let planes = pages.checked_div(channels).filter(|_| pages.is_multiple_of(channels))?;
    // "Inf" of a run that goes on until it is stopped.
    let frames = value("SI.hStackManager.framesPerSlice").and_then(|text| text.parse::<u64>().ok());
    let frames = frames.filter(|&frames| frames > 0).unwrap_or(planes);
    let slices = planes / frames;
    let outer = vec![OuterAxis::new("z", slices), OuterAxis::new("t", frames), OuterAxis::new("c", channels)];
    (slices * frames == planes && planes > 0).then(|| Axes { outer, ..Axes::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_frames_and_slices_are_read() {
        let sizes = |text: &str, pages| {
            axes(text, pages).map(|axes| axes.outer.iter().map(|axis| axis.size).collect::<Vec<_>>())
        };
        let text = |frames| {
            format!("SI.VERSION = 5\nSI.hChannels.channelSave = [1;3]\nSI.hStackManager.framesPerSlice = {frames}\n")
        };
        assert_eq!(sizes(&text("5"), 30), Some(vec![3, 5, 2]));
        assert_eq!(sizes(&text("Inf"), 30), Some(vec![1, 15, 2]));
        assert_eq!(sizes("SI.hChannels.channelSave = 1", 7), Some(vec![1, 7, 1]));
        assert_eq!((sizes(&text("5"), 31), sizes(&text("4"), 30), sizes("SI.", 3)), (None, None, None));
        assert_eq!(sizes("SI.hChannels.channelSave = []", 3), None);
    }
}
