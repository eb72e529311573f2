//! Which version of OME-Zarr's metadata is written.

use crate::named::named;

/// A version of OME-Zarr's metadata. One dataset has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OmeVersion {
    /// 0.4, which stands in the attributes of Zarr v2. Only `offline::Repack` writes it, not an
    /// acquisition.
    V0_4,
    /// 0.5: axes, and a scale and a translation for each level.
    #[default]
    V0_5,
    /// 0.6: the same as transformations between named coordinate systems. Images that say where they are on the stage
    /// are put beside each other by a `scene` of their dataset, or of their well.
    V0_6,
}

named!(OmeVersion, "ome", {
    V0_4 => "0.4",
    V0_5 => "0.5",
    V0_6 => "0.6",
});
