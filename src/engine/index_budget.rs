//! How many bytes of indexes are written while shards are open.
//!
//! Each checkpoint writes the index of every shard that has got new chunks, as a whole. Of small ones nobody notices;
//! an index of many megabytes, or those of many shards, would keep the device from the frames if it was written again
//! each second.

use std::time::{Duration, Instant};

const BYTES_A_SECOND: f64 = (10 << 20) as f64;

/// What all images wrote is worked off in time. Whoever writes pauses for as long as that takes, so none of them keeps
/// another from it for ever.
pub(super) struct IndexBudget {
    left: Duration,
    at: Instant,
}

impl IndexBudget {
    pub(super) fn new(now: Instant) -> Self {
        Self { left: Duration::ZERO, at: now }
    }

    /// An image has written this many bytes. Returns from when on it may write again.
    pub(super) fn spend(&mut self, bytes: u64, now: Instant) -> Instant {
        if bytes == 0 {
            return now;
        }
        let more = Duration::from_secs_f64(bytes as f64 / BYTES_A_SECOND);
        self.left = self.left.saturating_sub(now.saturating_duration_since(self.at)) + more;
        self.at = now;
        now + self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many checkpoints of each image write indexes of this many bytes in 100 s, if they are due each second.
    fn in_100_seconds<const IMAGES: usize>(bytes: u64) -> [u64; IMAGES] {
        let start = Instant::now();
        let (mut budget, mut due) = (IndexBudget::new(start), [start; IMAGES]);
        let mut written = [0; IMAGES];
        for second in 0..100 {
            for image in 0..IMAGES {
                let now = start + Duration::from_millis(1000 * second + image as u64);
                if now >= due[image] {
                    due[image] = budget.spend(bytes, now);
                    written[image] += 1;
                }
            }
        }
        written
    }

    #[test]
    fn small_indexes_are_written_each_time_and_large_ones_as_often_as_their_length_allows() {
        assert_eq!(in_100_seconds(100), [100]);
        assert_eq!(in_100_seconds(10 << 20), [100]);
        assert_eq!(in_100_seconds(11 << 20), [50]);
        assert_eq!(in_100_seconds(200 << 20), [5]);
    }

    #[test]
    fn images_share_what_there_is() {
        assert_eq!(in_100_seconds(100), [100; 100]);
        let written: [u64; 4] = in_100_seconds(11 << 20);
        assert!(written.iter().sum::<u64>() * 11 <= 1000 + 4 * 11, "{written:?}");
        assert!(written.iter().all(|&times| times >= 15), "{written:?}");
    }
}
