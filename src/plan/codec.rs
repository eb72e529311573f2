//! Which codec lets the most frames through.

use crate::codec::Effort;
use crate::codec::speed::{Speed, speeds};
use crate::config::{BloscCname, Codec, Compressor, Config};
use crate::dtype::Dtype;
use crate::error::Result;
use crate::format::rules;
use crate::storage::StorageSpeed;

// Rates this close are equal: measurements scatter more. Then the smaller result wins.
const ABOUT_EQUAL: f64 = 0.95;

const BLOSC_LZ4: Compressor = Compressor::blosc(BloscCname::Lz4);
const BLOSC_ZSTD: Compressor = Compressor::blosc(BloscCname::Zstd);

/// How an acquisition's chunks are made.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CodecPlan {
    pub(crate) compressor: Compressor,
    /// With how much effort, from the least on. The last is the one to begin with.
    pub(crate) efforts: Vec<Effort>,
    /// What was chosen and why, if there was a choice.
    pub(crate) choice: Option<String>,
}

impl CodecPlan {
    /// What was asked for.
    pub(crate) fn fixed(compressor: Compressor) -> Self {
        Self { compressor, efforts: vec![Effort::Normal], choice: None }
    }

    /// Of compressors that the dialect has, what lets the most frames through to a storage; `None`: nothing is known of
    /// that.
    ///
    /// # Errors
    /// As a codec's encoder.
    pub(crate) fn chosen(config: &Config, cores: usize, storage: Option<StorageSpeed>) -> Result<Self> {
        let mut codecs = Vec::new();
        for compressor in candidates(config) {
            let codec = Codec { compressor, ..config.codec };
            codecs.extend(efforts_of(compressor).into_iter().map(|effort| (codec.clone(), effort)));
        }
        let speeds = speeds(&codecs, config.dtype, cores)?;
        Ok(choose(&speeds, cores, storage, config.dtype))
    }

    /// What is taken where a choice does not matter.
    pub(crate) fn usual(config: &Config, why: &str) -> Self {
        let compressor = candidates(config)[0];
        let choice = Some(format!("codec {compressor} ({why})"));
        Self { choice, ..Self::fixed(compressor) }
    }
}

/// What [`Compressor::Auto`] may become; the first where nothing is known.
pub(super) fn candidates(config: &Config) -> [Compressor; 2] {
    match rules(config.dialect).compressors {
        Some(possible) if !possible.contains(&BLOSC_LZ4.name()) => [Compressor::None, Compressor::Gzip { level: 1 }],
        _ => [BLOSC_LZ4, BLOSC_ZSTD],
    }
}

/// From the least on.
fn efforts_of(compressor: Compressor) -> Vec<Effort> {
    match compressor {
        BLOSC_LZ4 => vec![Effort::Stored, Effort::Normal],
        BLOSC_ZSTD => Effort::ALL.to_vec(),
        _ => vec![Effort::Normal],
    }
}

fn choose(speeds: &[Speed], cores: usize, storage: Option<StorageSpeed>, dtype: Dtype) -> CodecPlan {
    let rate = |speed: &Speed| pixel_rate(speed, cores, storage);
    let normal = || speeds.iter().filter(|speed| speed.effort == Effort::Normal);
    let fastest = normal().map(rate).fold(0.0, f64::max);
    let about_fastest = normal().filter(|speed| rate(speed) >= ABOUT_EQUAL * fastest);
    let best = match storage {
        Some(_) => about_fastest.max_by(|one, other| one.ratio.total_cmp(&other.ratio)),
        None => normal().next(),
    };
    let best = best.expect("there are candidates");
    let helps = |speed: &&Speed| match speed.effort {
        // No noise tells how long a search for what repeats takes.
        Effort::Fast | Effort::Normal => true,
        Effort::Stored => ABOUT_EQUAL * rate(speed) > rate(best),
    };
    let efforts = speeds.iter().filter(|speed| speed.compressor == best.compressor).filter(helps);
    let of_noise = |speed: &Speed| {
        let (encoded, ratio) = (speed.bytes_per_s / 1e9, speed.ratio);
        let expected = storage.map_or_else(String::new, |_| format!(", so {:.2}", rate(speed) / 1e9));
        format!("{} {encoded:.2} at a ratio of {ratio:.2}{expected}", speed.compressor)
    };
    let storage = match storage {
        Some(StorageSpeed::Device(rate)) => format!("the storage takes {:.2}", rate / 1e9),
        Some(StorageSpeed::Core(rate)) => format!("a core writes {:.2} to memory", rate / 1e9),
        None => "what the storage takes is not known".to_owned(),
    };
    let speeds = normal().map(of_noise).collect::<Vec<_>>().join("; ");
    let choice =
        format!("codec {} (GB/s of {dtype} noise on {cores} cores in a trial: {speeds}; {storage})", best.compressor);
    CodecPlan {
        compressor: best.compressor,
        efforts: efforts.map(|speed| speed.effort).collect(),
        choice: Some(choice),
    }
}

/// Bytes of pixels per second that are encoded and written.
fn pixel_rate(speed: &Speed, cores: usize, storage: Option<StorageSpeed>) -> f64 {
    match storage {
        None => speed.bytes_per_s,
        Some(StorageSpeed::Device(rate)) => speed.bytes_per_s.min(rate * speed.ratio),
        // A core does one after the other.
        Some(StorageSpeed::Core(rate)) => 1.0 / (1.0 / speed.bytes_per_s + 1.0 / (cores as f64 * rate * speed.ratio)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GB/s of a core, and ratios, about as they are for dark images of u16 on one of today's cores.
    fn of_cores(cores: usize) -> Vec<Speed> {
        let speed = |compressor, effort, gigabytes: f64, ratio| Speed {
            compressor,
            effort,
            bytes_per_s: cores as f64 * gigabytes * 1e9,
            ratio,
        };
        vec![
            speed(BLOSC_LZ4, Effort::Stored, 8.0, 1.0),
            speed(BLOSC_LZ4, Effort::Normal, 3.0, 2.4),
            speed(BLOSC_ZSTD, Effort::Stored, 8.0, 1.0),
            speed(BLOSC_ZSTD, Effort::Fast, 1.2, 3.0),
            speed(BLOSC_ZSTD, Effort::Normal, 1.2, 3.0),
        ]
    }

    fn chosen(cores: usize, storage: Option<StorageSpeed>) -> CodecPlan {
        choose(&of_cores(cores), cores, storage, Dtype::U16)
    }

    #[test]
    fn the_storage_and_the_cores_decide() {
        use StorageSpeed::{Core, Device};
        let table = [
            (2, Device(0.1e9), BLOSC_ZSTD),
            (2, Device(0.8e9), BLOSC_ZSTD),
            // 2.4 by zstd's cores, 2.16 by what the storage takes of LZ4's.
            (2, Device(0.9e9), BLOSC_ZSTD),
            // 2.4 by zstd's cores, 2.5 with LZ4: about equal, and zstd's is smaller.
            (2, Device(1.04e9), BLOSC_ZSTD),
            (2, Device(1.1e9), BLOSC_LZ4),
            (2, Device(5e9), BLOSC_LZ4),
            (32, Device(5e9), BLOSC_ZSTD),
            (2, Core(2e9), BLOSC_LZ4),
            (32, Core(2e9), BLOSC_LZ4),
            (2, Core(0.2e9), BLOSC_ZSTD),
        ];
        for (cores, storage, expected) in table {
            let plan = chosen(cores, Some(storage));
            assert_eq!(plan.compressor, expected, "{cores} {storage:?}: {:?}", plan.choice);
        }
    }

    #[test]
    fn without_a_word_of_the_storage_it_is_the_usual_codec() {
        let plan = chosen(2, None);
        assert_eq!((plan.compressor, plan.efforts), (BLOSC_LZ4, vec![Effort::Stored, Effort::Normal]));
        assert!(plan.choice.unwrap().contains("is not known"));
        assert_eq!(candidates(&Config::default())[0], Compressor::default());
    }

    #[test]
    fn chunks_are_stored_only_where_the_storage_takes_so_much() {
        let efforts = |storage| chosen(2, Some(storage)).efforts;
        assert_eq!(efforts(StorageSpeed::Device(10e9)), [Effort::Stored, Effort::Normal]);
        assert_eq!(efforts(StorageSpeed::Device(2e9)), [Effort::Normal]);
        assert_eq!(efforts(StorageSpeed::Core(2e9)), [Effort::Normal]);
        assert_eq!(efforts(StorageSpeed::Device(0.1e9)), [Effort::Fast, Effort::Normal]);
    }

    #[test]
    fn the_figures_are_told() {
        let choice = chosen(2, Some(StorageSpeed::Device(0.5e9))).choice.unwrap();
        assert_eq!(
            choice,
            "codec blosc-zstd (GB/s of uint16 noise on 2 cores in a trial: blosc-lz4 6.00 at a ratio of 2.40, so 1.20; \
             blosc-zstd 2.40 at a ratio of 3.00, so 1.50; the storage takes 0.50)"
        );
    }
}
