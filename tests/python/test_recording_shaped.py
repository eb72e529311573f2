"""Arrays that tifffile describes in JSON: the axes that it names, whatever the pages hold, and several of them."""

import numpy as np
import pytest
import tifffile

from recordings import GRAY, RGB, assert_replayed, volume
from readers import assert_same, open_zarr_python

# That tifffile will choose otherwise in times to come.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

# Sizes of the axes of planes of 16 x 16 pixels, the slowest first. tifffile makes colours of 3 and 4 planes.
PLANAR = [("TZYX", (2, 3)), ("ZTYX", (2, 3)), ("QZYX", (2, 3)), ("RTYX", (2, 3)), ("CTYX", (2, 3)), ("TZYX", (2, 4)),
          ("ZYX", (3,)), ("TYX", (3,)), ("CYX", (3,)), ("IYX", (3,)), ("ZYX", (4,)), ("TZYX", (1, 3)), ("TCYX", (2, 3)),
          ("TSYX", (2, 3)), ("SYX", (3,)), ("TCZYX", (2, 5, 3)), ("CSYX", (2, 3))]  # fmt: skip
STORED = ["t", "q", "r", "i", "s", "c", "z"]


def expected(data, axes):
    """As it is stored: samples are channels, and beside other channels the faster part of them."""
    if "C" in axes and "S" in axes:
        data, axes = data.reshape(-1, *data.shape[-2:]), "CYX"
    axes = axes.lower().replace("s", "c")
    kept = [axis for axis, size in zip(axes[:-2], data.shape) if size > 1]
    data = data.reshape([size for size in data.shape[:-2] if size > 1] + [*data.shape[-2:]])
    order = sorted(kept, key=STORED.index)
    data = data.transpose([kept.index(axis) for axis in order] + [len(kept), len(kept) + 1])
    return np.ascontiguousarray(data), "".join(order) + "yx"


@pytest.mark.parametrize("options", [{}, {"compression": "zlib"}, {"tile": (16, 16)}, GRAY])
@pytest.mark.parametrize("dtype", ["u1", "u2"])
@pytest.mark.parametrize("axes, outer", PLANAR)
def test_axes_that_are_named_count_whatever_pages_hold(replay, tmp_path, axes, outer, dtype, options):
    data, path = volume(*outer, 16, 16, dtype=dtype), tmp_path / "in.tif"
    tifffile.imwrite(path, data, metadata={"axes": axes}, **options)
    with tifffile.TiffFile(path) as tif:
        assert tif.series[0].axes == axes and tif.series[0].shape == data.shape
    report, out = replay(path)
    if options is GRAY and "S" in axes and "C" not in axes:
        # Planes of their own, which are no colours.
        data_stored, stored = expected(data, axes.replace("S", "R"))
        stored = stored.replace("r", "s")
    elif options is GRAY and "S" in axes:
        data_stored, stored = data.transpose(1, 0, 2, 3), "scyx"
    else:
        data_stored, stored = expected(data, axes)
    assert_replayed(out, data_stored, stored)
    assert report["frames_missing"] == 0 and "claims" not in " ".join(report["notes"])


@pytest.mark.parametrize("axes, shape, options", [
    ("TZYX", (2, 3, 16, 16), {}), ("ZYX", (3, 16, 16), {}), ("ZYX", (7, 16, 16), GRAY), (None, (7, 16, 16), GRAY)
])  # fmt: skip
def test_planes_behind_the_only_page(replay, told, tmp_path, axes, shape, options):
    data, path = volume(*shape), tmp_path / "in.tif"
    tifffile.imwrite(path, data, truncate=True, metadata={"axes": axes} if axes else {}, **options)
    with tifffile.TiffFile(path) as tif:
        assert len(tif.pages) == 1 and tif.series[0].shape == shape
    assert_replayed(replay(path)[1], *expected(data, axes or "TYX"))
    path.write_bytes(path.read_bytes()[: -16 * 16 * 2])
    planes = np.prod(shape[:-2])
    # The planes of one page are that page's.
    words = f"it holds {planes - 1} of the {planes} planes" if planes != 3 else "the file ends too early"
    assert words in told("replay", path, tmp_path / "o", code=3)["error"]["message"]


def test_colours_that_are_named_stay_channels(replay, tmp_path):
    data = volume(2, 16, 20, 3, dtype="u1")
    for axes in ["TYXS", "TYXC"]:
        tifffile.imwrite(tmp_path / "in.tif", data, metadata={"axes": axes}, **RGB)
        assert_replayed(replay(tmp_path / "in.tif")[1], data.transpose(0, 3, 1, 2), "tcyx")


@pytest.mark.parametrize("axes, shape, options, words", [
    ("TZYX", (2, 16, 16, 3), {}, "TZYX (2, 16, 16, 3)"),
    ("ZYX", (16, 16, 4), {}, "photometric='minisblack'"),
    ("YXZ", (16, 16, 5), GRAY, "YXZ (16, 16, 5)"),
    ("ZZYX", (2, 5, 16, 16), GRAY, "ZZYX (2, 5, 16, 16)"),
])  # fmt: skip
def test_axes_that_no_planes_have_are_refused(told, tmp_path, axes, shape, options, words):
    tifffile.imwrite(tmp_path / "in.tif", volume(*shape), metadata={"axes": axes}, **options)
    error = told("replay", tmp_path / "in.tif", tmp_path / "o", code=5)["error"]
    assert words in error["message"] and not (tmp_path / "o").exists()


def test_axes_behind_another_description(replay, tmp_path):
    data = volume(2, 5, 16, 16)
    tifffile.imwrite(tmp_path / "in.tif", data, description="mine", metadata={"axes": "ZTYX"}, **GRAY)
    assert_replayed(replay(tmp_path / "in.tif")[1], *expected(data, "ZTYX"))


def test_several_arrays_are_images_to_choose_from(replay, told, tmp_path):
    path = tmp_path / "in.tif"
    arrays = [("CZYX", volume(2, 5, 16, 16)), ("TYX", volume(3, 16, 16)), ("ZYX", volume(3, 20, 24, dtype="u1"))]
    with tifffile.TiffWriter(path) as tif:
        for axes, data in arrays:
            tif.write(data, metadata={"axes": axes}, **(GRAY if axes != "ZYX" else {}))
    with tifffile.TiffFile(path) as tif:
        assert [series.axes for series in tif.series] == [axes for axes, _ in arrays]
    message = told("replay", path, tmp_path / "o", code=2)["error"]["message"]
    listed = ["0: CZYX (2, 5, 16, 16) uint16", "1: TYX (3, 16, 16) uint16", "2: ZYX (3, 20, 24) uint8"]
    assert all(f"\n  {line}" in message for line in listed) and "--series all" in message
    assert "3 images" in told("replay", path, tmp_path / "o", "--series", 3, code=2)["error"]["message"]
    assert not (tmp_path / "o").exists()
    for number, (axes, data) in enumerate(arrays):
        assert_replayed(replay(path, "--series", number)[1], *expected(data, axes))
    told("replay", path, tmp_path / "all", "--series", "all", "--no-sync")
    for number, (axes, data) in enumerate(arrays):
        assert_same(open_zarr_python(tmp_path / f"all/{number}/0")[...], expected(data, axes)[0])


def test_two_arrays_of_the_same_axes_are_no_movie(replay, told, tmp_path):
    data, path = volume(2, 3, 16, 16), tmp_path / "in.tif"
    for options in [GRAY, {}]:
        with tifffile.TiffWriter(path) as tif:
            for array in data:
                tif.write(array, metadata={"axes": "ZYX"}, **options)
        assert "holds 2 images" in told("replay", path, tmp_path / "o", code=2)["error"]["message"]
        assert_replayed(replay(path, "--series", 1)[1], data[1], "zyx")


def test_arrays_without_names_of_axes_are_one_movie(replay, refused, tmp_path):
    data, path = volume(6, 16, 16), tmp_path / "in.tif"
    for metadata in [{}, {"axes": "YX"}]:
        with tifffile.TiffWriter(path) as tif:
            for page in data:
                tif.write(page, metadata=metadata, **GRAY)
        report, out = replay(path)
        assert_replayed(out, data, "tyx")
        assert not report["notes"]
    with tifffile.TiffWriter(path) as tif:
        for part in np.split(data, 3):
            tif.write(part, **GRAY)
    report, out = replay(path, "--series", 0)
    assert_replayed(out, data, "tyx")
    assert "3 arrays" in " ".join(report["notes"])
    assert "one image" in refused(path, "--series", 1, code=2)


def test_pages_that_no_description_counts_become_times_with_a_note(replay, tmp_path):
    data = volume(7, 16, 16)
    with tifffile.TiffWriter(tmp_path / "in.tif") as tif:
        tif.write(data[:6].reshape(2, 3, 16, 16), metadata={"axes": "CZYX"}, **GRAY)
    with tifffile.TiffWriter(tmp_path / "in.tif", append=True) as tif:
        tif.write(data[6], metadata=None, **GRAY)
    report, out = replay(tmp_path / "in.tif")
    assert_replayed(out, data, "tyx")
    assert "CZYX (2, 3, 16, 16)" in " ".join(report["notes"])
