//! Pixels as cameras give them, made into pixels as arrays hold them: packed ones unpacked, images turned and flipped,
//! one channel taken out of interleaved ones.
//!
//! All of it can be done while a tile is gathered: the functions take any part of a row, or any rectangle of an image.
//! They neither read nor write past the end of a slice, and allocate nothing.
//!
//! [`Plane`] serves `downsample`, too.

mod channel;
mod orientation;
mod packed;
mod plane;
mod roi;
mod transpose;

pub use channel::Interleaved;
pub use orientation::{Flip, Orientation};
pub use packed::{Packing, Unpacker};
pub use plane::Plane;
pub use roi::Roi;
