//! Files that hold recordings, but that are not read here: what they are, and what to do with them.

/// So a ZIP archive begins.
pub(crate) const ZIP: &[u8] = b"PK\x03\x04";

/// What to say of a file that begins so; `None` if it is nothing that is known.
pub(crate) fn advice(head: &[u8]) -> Option<&'static str> {
    let begins = |magic: &[u8]| head.starts_with(magic);
    Some(match head {
        _ if begins(b"\x89HDF\r\n\x1a\n") => {
            "it is an HDF5 file, which is not read here; write its dataset as .npy, such as \
             `python -c 'import h5py, numpy; numpy.save(\"movie.npy\", h5py.File(\"movie.h5\")[\"data\"][:])'`, \
             or as raw bytes with `h5dump -d /data -b LE -o movie.raw movie.h5` and give --shape and --dtype"
        }
        _ if begins(ZIP) => {
            "it is a zip archive; unpack it and replay what is in it (an .npz holds .npy files, a .zarr.zip a folder)"
        }
        _ if begins(b"\xda\xce\xbe\x0a") => {
            "it is a Nikon ND2 file, which is not read here; convert it with bioformats2raw"
        }
        _ if begins(b"ZISRAWFILE") => "it is a Zeiss CZI file, which is not read here; convert it with bioformats2raw",
        _ if begins(b"\x70\0\0\0") => {
            "it may be a Leica LIF file, which is not read here; convert it with bioformats2raw"
        }
        _ if begins(b"\x89PNG") => "it is a PNG image, which is not read here; convert it to TIFF",
        _ if begins(b"\xff\xd8\xff") => "it is a JPEG image, which is not read here; convert it to TIFF",
        _ if begins(b"\0\0\0\x0cjP  ") || begins(b"\xff\x4f\xff\x51") => {
            "it is a JPEG 2000 image, which is not read here; convert it to TIFF"
        }
        _ if begins(b"\x1f\x8b") => "it is compressed with gzip; decompress it first",
        _ if begins(b"\x28\xb5\x2f\xfd") => "it is compressed with Zstandard; decompress it first",
        _ if begins(b"RIFF") => "it is a video (AVI), which is not read here; convert it to TIFF",
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => "it is a video (MP4), which is not read here; convert it to TIFF",
        _ => return None,
    })
}
