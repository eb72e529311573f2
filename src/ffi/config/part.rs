//! Which part of a run that several processes write.

/// How the shards of a run are divided among several writers.
pub type sw_part_by = u32;
/// Rows of shards along the first dimension are dealt out in turn.
pub const SW_PART_BY_TIME: sw_part_by = 0;
/// Each has a band of columns, or of rows, of the frame.
pub const SW_PART_BY_FRAME: sw_part_by = 1;
