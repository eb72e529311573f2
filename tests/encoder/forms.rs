//! The forms of one encoder: with all instructions that the processor has, and without those of newer ones.

#[cfg(all(sw_forms, target_arch = "x86_64"))]
pub(crate) use all::{Forms, names};
#[cfg(not(all(sw_forms, target_arch = "x86_64")))]
pub(crate) use one::{Forms, names};

#[cfg(all(sw_forms, target_arch = "x86_64"))]
mod all {
    use shardwright::Codec;
    use shardwright::codec::{Encoder, Generation, allow};

    const OLDER: [Generation; 3] = [Generation::Baseline, Generation::Avx2, Generation::Gfni];

    pub(crate) fn names() -> String {
        format!("{OLDER:?}, Avx512, as far as this processor has them")
    }

    /// Encoders that shall write what the one does that uses everything.
    pub(crate) struct Forms {
        older: Vec<(Generation, Encoder)>,
        room: Vec<u8>,
    }

    impl Forms {
        pub(crate) fn new(codec: &Codec, element_bytes: usize, tile_bytes: usize) -> Self {
            let older = OLDER.map(|generation| {
                allow(generation);
                (generation, Encoder::new(codec, element_bytes, tile_bytes).expect("a valid codec"))
            });
            allow(Generation::Avx512);
            let room = vec![0; older[0].1.bound()];
            Self { older: older.into(), room }
        }

        pub(crate) fn check(&mut self, tile: &[u8], encoded: &[u8], what: &str) {
            for (generation, encoder) in &mut self.older {
                // Some kernels ask anew each time.
                allow(*generation);
                let written = encoder.encode(tile, &mut self.room);
                let written = written.unwrap_or_else(|error| panic!("{what}: {generation:?}: {error}"));
                assert!(self.room[..written] == *encoded, "{what}: {generation:?} writes something else");
            }
            allow(Generation::Avx512);
        }
    }
}

/// Without the flag.
#[cfg(not(all(sw_forms, target_arch = "x86_64")))]
mod one {
    use shardwright::Codec;

    pub(crate) fn names() -> &'static str {
        "one form"
    }

    pub(crate) struct Forms;

    impl Forms {
        pub(crate) fn new(_: &Codec, _: usize, _: usize) -> Self {
            Self
        }

        pub(crate) fn check(&mut self, _: &[u8], _: &[u8], _: &str) {}
    }
}
