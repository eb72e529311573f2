"""The table of `src/guide/recordings.md` of what is refused, row by row: with its exit code, and a sentence."""

import subprocess
import time

import numpy as np
import pytest
import tifffile
import zarr

import camera_files
from recordings import GRAY, rows_of_guide, volume
from test_recording_sets import mm_stack

REFUSED = {}


def refusal(name, *cases):
    """A row of what is refused: functions that make the source, and a part of the sentence."""
    REFUSED[name] = cases


def of_tifffile(**options):
    data = options.pop("data", volume(20, 30))
    name = options.pop("name", "in.tif")

    def write(folder):
        tifffile.imwrite(folder / name, data, **{**GRAY, **options})
        return folder / name

    return write


def patched(tag, value, **options):
    def write(folder):
        path = of_tifffile(**options)(folder)
        camera_files.with_tag(path, tag, value)
        return path

    return write


def content(name, text):
    def write(folder):
        (folder / name).write_bytes(text)
        return folder / name

    return write


def npy_file(data):
    def write(folder):
        np.save(folder / "in.npy", data)
        return folder / "in.npy"

    return write


def npz(folder):
    np.savez(folder / "in.npz", movie=volume(5, 20, 30))
    return folder / "in.npz"


def volumetric(folder):
    tifffile.imwrite(folder / "in.tif", volume(4, 32, 48), volumetric=True, metadata=None, **GRAY)
    return folder / "in.tif"


def differing(folder):
    with tifffile.TiffWriter(folder / "in.tif") as tif:
        tif.write(volume(20, 30), metadata=None, **GRAY)
        tif.write(volume(20, 31), metadata=None, **GRAY)
    return folder / "in.tif"


def stacks_of_two_runs(folder):
    for run in ("a", "b"):
        mm_stack(folder / f"{run}_MMStack.ome.tif", volume(1, 2, 1, 1, 20, 30))
    return folder


def lsm_lines(folder):
    camera_files.lsm(folder / "in.lsm", volume(1, 1, 1, 20, 30), 2)
    return folder / "in.lsm"


def lsm_positions(folder):
    camera_files.lsm(folder / "in.lsm", volume(1, 4, 1, 20, 30), 0, positions=2)
    return folder / "in.lsm"


def cut(folder):
    path = of_tifffile()(folder)
    path.write_bytes(path.read_bytes()[:60])
    return path


def zarr_of(dtype):
    def write(folder):
        zarr.create_array(folder / "in.zarr", data=np.zeros((3, 4, 5), dtype))
        return folder / "in.zarr"

    return write


def plate(folder):
    wells = zarr.open_group(folder / "plate.zarr", mode="w")
    wells.create_array("A/1/0/0", data=volume(4, 20, 30))
    wells.attrs["ome"] = {"version": "0.5", "plate": {"wells": [{"path": "A/1"}], "rows": [], "columns": []}}
    return folder / "plate.zarr"


refusal("TIFF with JPEG 2000", (of_tifffile(compression="jpeg2000"), "JPEG 2000"))
refusal("TIFF with LERC", (of_tifffile(compression="lerc"), "LERC"))
refusal(
    "TIFF with WebP", (of_tifffile(data=volume(32, 32, 3, dtype="u1"), compression="webp", photometric="rgb"), "WebP")
)
refusal("TIFF with LZMA", (of_tifffile(compression="lzma"), "LZMA"))
refusal("TIFF with CCITT fax", *[(patched("Compression", code), "CCITT fax") for code in (2, 3, 4)])
refusal("TIFF of complex numbers", (of_tifffile(data=np.zeros((20, 30), "c8")), "complex samples of 64 bits"))
refusal(
    "TIFF of 24-bit floating-point numbers", (patched("BitsPerSample", 24, data=volume(9, 9, dtype="f4")), "24 bits")
)
refusal("TIFF page that is a volume", (volumetric, "holds a volume of 4 planes"))
refusal("TIFF pages that differ", (differing, "all pages must agree"))
refusal(
    "OME-TIFF with dimensions within others (`ModuloAlongZ` and the like)",
    (of_tifffile(name="in.ome.tif", data=volume(2, 3, 20, 30), metadata={"axes": "THYX"}), "(ModuloAlongT)"),
    (of_tifffile(name="in.ome.tif", data=volume(2, 3, 20, 30), metadata={"axes": "ZAYX"}), "(ModuloAlongZ)"),
)
refusal("folder of TIFF files of several recordings", (stacks_of_two_runs, "none of it: b_MMStack.ome.tif"))
refusal("LSM of lines or several positions", (lsm_lines, "scan type 2"), (lsm_positions, "several positions"))
refusal("TIFF that is cut off before its first page", (cut, "page 0"))
refusal("empty file", (content("empty.tif", b""), "is empty"))
refusal("`.npy` in Fortran's order", (npy_file(np.asfortranarray(volume(5, 20, 30))), "ascontiguousarray"))
refusal(
    "`.npy` of complex numbers or records",
    (npy_file(np.zeros((3, 4), "c8")), "<c8"),
    (npy_file(np.zeros((3, 4), [("a", "u2"), ("b", "f4")])), "records"),
)
refusal("`.npz` or another ZIP", (npz, "zip archive"))
refusal("HDF5", (content("in.h5", b"\x89HDF\r\n\x1a\n" + bytes(100)), "h5dump"))
refusal(
    "Nikon ND2, Zeiss CZI, Leica LIF",
    (content("in.nd2", b"\xda\xce\xbe\x0a" + bytes(99)), "Nikon ND2"),
    (content("in.czi", b"ZISRAWFILE" + bytes(99)), "Zeiss CZI"),
    (content("in.lif", b"\x70\0\0\0" + bytes(99)), "Leica LIF"),
)
refusal(
    "PNG, JPEG, JPEG 2000 or video",
    (content("in.png", b"\x89PNG\r\n\x1a\n" + bytes(99)), "PNG"),
    (content("in.jpg", b"\xff\xd8\xff\xe0" + bytes(99)), "JPEG"),
    (content("in.jp2", b"\0\0\0\x0cjP  \r\n" + bytes(99)), "JPEG 2000"),
    (content("in.avi", b"RIFF" + bytes(99)), "AVI"),
    (content("in.mp4", b"\0\0\0\x18ftypmp42" + bytes(99)), "MP4"),
)
refusal("raw file that ends too early", (content("in.raw", bytes(999)), "but the file holds"))
refusal(
    "Zarr array of booleans, half-precision or complex numbers",
    *[(zarr_of(dtype), "repack and export take the array") for dtype in ("bool", "f2", "c8")],
)
refusal("OME-Zarr plate or well as a whole", (plate, "A/1/0"))


# They have a test of their own, because a writer must run.
OF_WRITERS = {"dataset that is being written", "dataset whose writer did not finish"}


def test_the_table_names_what_is_tested():
    assert set(rows_of_guide("exit code")) == set(REFUSED) | OF_WRITERS


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(refused, tmp_path, name):
    code = int(rows_of_guide("exit code")[name])
    for number, (make, expected) in enumerate(REFUSED[name]):
        folder = tmp_path / f"in{number}"
        folder.mkdir()
        source = make(folder)
        options = ["--shape", "10,20,30", "--dtype", "u16"] if name.startswith("raw") else []
        said = refused(source, *options, code=code)
        assert expected in said, said


def test_datasets_of_writers_are_refused_as_the_table_says(command, refused, tmp_path):
    run = tmp_path / "run.zarr"
    call = [command, "replay", "synthetic", run, "--camera", "64x48xu8", "--frames", "900", "--rate", "30", "--quiet"]
    writer = subprocess.Popen([str(word) for word in call])
    try:
        while not (run / "0/zarr.json").exists():
            assert writer.poll() is None
            time.sleep(0.02)
        assert "is being written" in refused(run, code=int(rows_of_guide("exit code")["dataset that is being written"]))
    finally:
        writer.kill()
        writer.wait()
    code = int(rows_of_guide("exit code")["dataset whose writer did not finish"])
    assert "did not finish" in refused(run, code=code)
