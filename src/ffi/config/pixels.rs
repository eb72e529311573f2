//! How a camera's pixels lie, and how frames are turned.

/// How a camera's pixels lie in frame buffers. The packed ones are called as in GenICam's Pixel Format Naming
/// Convention; Bayer patterns are packed in the same ways.
pub type sw_pixel_format = u32;
/// As in the array: numbers of the machine's byte order.
pub const SW_PIXELS_PLAIN: sw_pixel_format = 0;
/// 16-bit numbers whose high byte comes first.
pub const SW_PIXELS_BIG_ENDIAN: sw_pixel_format = 1;
/// 10 bits a pixel, lowest bit first: four pixels in five bytes.
pub const SW_PIXELS_MONO10P: sw_pixel_format = 2;
/// 12 bits a pixel, lowest bit first: two pixels in three bytes.
pub const SW_PIXELS_MONO12P: sw_pixel_format = 3;
/// 14 bits a pixel, lowest bit first: four pixels in seven bytes.
pub const SW_PIXELS_MONO14P: sw_pixel_format = 4;
/// Two 10-bit pixels in three bytes, their lowest bits in the second one (GigE Vision).
pub const SW_PIXELS_MONO10_PACKED: sw_pixel_format = 5;
/// Two 12-bit pixels in three bytes, their lowest bits in the second one (GigE Vision).
pub const SW_PIXELS_MONO12_PACKED: sw_pixel_format = 6;
/// Three samples a pixel, which follow each other, each as in the array: RGB, BGR. A buffer holds a picture, which is a
/// frame of each channel, under numbers that follow each other.
pub const SW_PIXELS_RGB: sw_pixel_format = 7;
/// Four samples a pixel, as of SW_PIXELS_RGB: RGBA, BGRA.
pub const SW_PIXELS_RGBA: sw_pixel_format = 8;

/// How a frame is turned. Quarter turns are two of them: SW_ORIENTATION_TRANSPOSE and SW_ORIENTATION_FLIP_ROWS turn
/// counterclockwise, SW_ORIENTATION_TRANSPOSE and SW_ORIENTATION_FLIP_COLUMNS clockwise.
pub type sw_orientation = u32;
/// Rows become columns.
pub const SW_ORIENTATION_TRANSPOSE: sw_orientation = 1;
/// The last row becomes the first, after that.
pub const SW_ORIENTATION_FLIP_ROWS: sw_orientation = 2;
/// The last column becomes the first, after that.
pub const SW_ORIENTATION_FLIP_COLUMNS: sw_orientation = 4;
