//! The window of values in which viewers open a channel for which nobody asked for one: what nearly all pixels of its
//! first frames lie in. Viewers that took the whole range of 16 bits would show most images black.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

use crate::config::{Channel, Config, DimKind};
use crate::dtype::Dtype;
use crate::geometry::Outer;
use crate::sync::Unpoisoned;

/// Frames of each channel that are looked at.
const FRAMES: u8 = 8;
/// One pixel in this many may be darker than the window, and one may be brighter: some pixels of a camera always are.
const OUTLIERS: usize = 1000;
/// A colour image of bytes is shown as it is.
const COLOR_IMAGE: [&str; 3] = ["FF0000", "00FF00", "0000FF"];

/// The windows of all channels of an image.
#[derive(Debug)]
pub(crate) struct Contrast {
    /// The dimension of channels; `None` where there is one channel, and no dimension for it.
    dim: Option<usize>,
    channels: Box<[Window]>,
    has_changed: AtomicBool,
}

#[derive(Debug)]
struct Window {
    /// Frames that are still to be looked at.
    wanted: AtomicU8,
    values: Mutex<Option<(f64, f64)>>,
}

impl Contrast {
    /// `None` if no channel has to have a window found.
    pub(crate) fn new(config: &Config) -> Option<Self> {
        let is_color = |(channel, color): (&Channel, &str)| channel.color.eq_ignore_ascii_case(color);
        let colors = config.channels.len() == COLOR_IMAGE.len() && config.dtype == Dtype::U8;
        if colors && config.channels.iter().zip(COLOR_IMAGE).all(is_color) {
            return None;
        }
        let wanted = |channel: &Channel| if channel.window.is_none() { FRAMES } else { 0 };
        let window = |wanted| Window { wanted: AtomicU8::new(wanted), values: Mutex::default() };
        let channels: Box<[_]> = config.channels.iter().map(|channel| window(wanted(channel))).collect();
        let dim = config.dims.iter().position(|dim| dim.kind == DimKind::Channel);
        let is_wanted = config.channels.iter().any(|channel| channel.window.is_none());
        is_wanted.then(|| Self { dim, channels, has_changed: AtomicBool::new(false) })
    }

    /// Whether any channel still has frames to be looked at.
    pub(crate) fn is_open(&self) -> bool {
        self.channels.iter().any(|channel| channel.wanted.load(Relaxed) > 0)
    }

    /// The channel of a frame at this position, if the frame is to be looked at. Each that is said so counts.
    pub(crate) fn wants(&self, position: &Outer) -> Option<usize> {
        let channel = self.dim.map_or(0, |dim| position[dim] as usize);
        let wanted = &self.channels.get(channel)?.wanted;
        wanted.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok().then_some(channel)
    }

    /// Takes pixels of a frame, as many as there are to be looked at.
    pub(crate) fn add(&self, channel: usize, mut pixels: Vec<f64>) {
        pixels.retain(|value| value.is_finite());
        let outliers = pixels.len() / OUTLIERS;
        let Some(last) = pixels.len().checked_sub(1 + outliers) else { return };
        // Two selections take a quarter of the time of sorting, which short runs would feel.
        let (_, &mut start, _) = pixels.select_nth_unstable_by(outliers, f64::total_cmp);
        let (_, &mut end, _) = pixels.select_nth_unstable_by(last, f64::total_cmp);
        if start >= end {
            // Nothing is seen yet.
            return;
        }
        let mut values = self.channels[channel].values.lock().unpoisoned();
        let wider = values.map_or((start, end), |(least, most)| (start.min(least), end.max(most)));
        if *values != Some(wider) {
            *values = Some(wider);
            self.has_changed.store(true, Relaxed);
        }
    }

    /// Whether a window has changed since the last call.
    pub(crate) fn take_change(&self) -> bool {
        self.has_changed.swap(false, Relaxed)
    }

    /// The channels, with the windows that were found.
    pub(crate) fn complete(&self, channels: &[Channel]) -> Vec<Channel> {
        let found = |window: &Window| *window.values.lock().unpoisoned();
        let complete = |(channel, window): (&Channel, &Window)| Channel {
            window: channel.window.or_else(|| found(window)),
            ..channel.clone()
        };
        channels.iter().zip(&self.channels).map(complete).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Dim;

    fn channel(color: &str, window: Option<(f64, f64)>) -> Channel {
        Channel { label: "one".into(), color: color.into(), window }
    }

    fn config(channels: Vec<Channel>) -> Config {
        let dims = vec![Dim::time(None), Dim::channel(channels.len() as u64), Dim::y(4), Dim::x(4)];
        Config { dtype: Dtype::U16, dims, channels, ..Config::default() }
    }

    #[test]
    fn windows_hold_nearly_all_pixels_of_the_first_frames() {
        let channels = vec![channel("FFFFFF", None), channel("FFFFFF", Some((1.0, 2.0))), channel("FFFFFF", None)];
        let config = config(channels);
        let contrast = Contrast::new(&config).unwrap();
        let at = |channel| {
            let mut position = Outer::default();
            position[1] = channel;
            position
        };
        assert_eq!((contrast.wants(&at(0)), contrast.wants(&at(1)), contrast.wants(&at(3))), (Some(0), None, None));
        // A hot pixel, and a dead one.
        let mut frame: Vec<f64> = (100..1100).map(f64::from).collect();
        frame.extend([0.0, 65535.0, f64::NAN]);
        contrast.add(0, frame);
        assert!(contrast.take_change() && !contrast.take_change());
        contrast.add(0, vec![7.0; 16]);
        contrast.add(0, vec![]);
        assert!(!contrast.take_change(), "frames of one value, or none, tell nothing");
        contrast.add(0, vec![90.0, 95.0]);
        let windows: Vec<_> = contrast.complete(&config.channels).into_iter().map(|channel| channel.window).collect();
        assert_eq!(windows, [Some((90.0, 1099.0)), Some((1.0, 2.0)), None]);
        for _ in 1..FRAMES {
            assert_eq!((contrast.wants(&at(0)), contrast.wants(&at(2))), (Some(0), Some(2)));
        }
        assert_eq!((contrast.wants(&at(0)), contrast.wants(&at(2)), contrast.is_open()), (None, Some(2), false));
    }

    #[test]
    fn where_windows_are_set_nothing_is_looked_at() {
        assert!(Contrast::new(&config(vec![])).is_none());
        assert!(Contrast::new(&config(vec![channel("FFFFFF", Some((0.0, 1.0)))])).is_none());
        let color = COLOR_IMAGE.map(|color| channel(&color.to_lowercase(), None)).to_vec();
        assert!(Contrast::new(&config(color.clone())).is_some(), "of 16 bits, cameras seldom use all");
        assert!(Contrast::new(&Config { dtype: Dtype::U8, ..config(color) }).is_none());
    }
}
