"""Recordings of several files or images: OME-TIFF, Micro-Manager's formats, folders of files, groups of Zarr."""

import json
import struct
import uuid

import numpy as np
import pytest
import tifffile
import zarr
from readers import assert_same, open_zarr_python
from recordings import GRAY, RGB, assert_replayed, tifffile_reads, volume

SCHEMA = "http://www.openmicroscopy.org/Schemas/OME/2016-06"


def ome_xml(images, own=None, binary_only=None):
    inside = f'<BinaryOnly MetadataFile="{binary_only}" UUID="urn:uuid:{uuid.UUID(int=99)}"/>' if binary_only else ""
    own = f' UUID="urn:uuid:{own}"' if own else ""
    return f'<?xml version="1.0" encoding="UTF-8"?><OME xmlns="{SCHEMA}"{own}>{"".join(images)}{inside}</OME>'


def ome_image(name, order, sizes, blocks, samples=1):
    sizes = " ".join(f'Size{axis}="{size}"' for axis, size in sizes.items())
    channels = f'<Channel ID="Channel:0:0" SamplesPerPixel="{samples}"/>' if samples > 1 else ""
    inside = channels + "".join(blocks)
    pixels = f'<Pixels ID="Pixels:0" DimensionOrder="{order}" Type="uint16" {sizes}>{inside}</Pixels>'
    return f'<Image ID="Image:0" Name="{name}">{pixels}</Image>'


def block(page=None, count=None, file=None, number=None, **first):
    attributes = {"IFD": page, "PlaneCount": count, **{f"First{axis}": at for axis, at in first.items()}}
    text = " ".join(f'{key}="{value}"' for key, value in attributes.items() if value is not None)
    inside = f'<UUID FileName="{file}">urn:uuid:{number}</UUID>' if file else ""
    return f"<TiffData {text}>{inside}</TiffData>"


def write_pages(path, pages, description=None):
    with tifffile.TiffWriter(path, ome=False) as tif:
        for index, page in enumerate(pages):
            tif.write(page, metadata=None, description=description if index == 0 else None, **GRAY)


SIZES = {"X": 30, "Y": 20, "C": 2, "Z": 3, "T": 4}


def test_planes_of_ome_tiff_in_any_order(replay, tmp_path):
    data = volume(4, 3, 2, 20, 30)
    places = list(np.ndindex(4, 3, 2))
    np.random.default_rng(1).shuffle(places)
    blocks = [block(page, 1, T=t, Z=z, C=c) for page, (t, z, c) in enumerate(places)]
    xml = ome_xml([ome_image("a", "XYCZT", SIZES, blocks)])
    write_pages(tmp_path / "in.ome.tif", [data[tuple(place)] for place in places], xml)
    _, out = replay(tmp_path / "in.ome.tif")
    assert_replayed(out, data.transpose(0, 2, 1, 3, 4), "tczyx")
    assert_replayed(out, *tifffile_reads(tmp_path / "in.ome.tif"))


def ome_set(folder, data, companion=False):
    """A file for each time point, with the document in all of them or beside them."""
    numbers = [uuid.UUID(int=t + 1) for t in range(len(data))]
    names = [f"set_t{t}.ome.tif" for t in range(len(data))]
    blocks = [block(0, 6, names[t], numbers[t], T=t) for t in range(len(data))]
    images = [ome_image("set", "XYCZT", {**SIZES, "T": len(data)}, blocks)]
    for t, planes in enumerate(data):
        xml = ome_xml([], numbers[t], "set.companion.ome") if companion else ome_xml(images, numbers[t])
        write_pages(folder / names[t], planes.reshape(-1, 20, 30), xml)
    if companion:
        (folder / "set.companion.ome").write_text(ome_xml(images))
    return folder / names[0]


def test_sets_of_ome_tiff(replay, tmp_path):
    data = volume(4, 3, 2, 20, 30)
    first = ome_set(tmp_path, data)
    expected = data.transpose(0, 2, 1, 3, 4)
    assert_replayed(replay(first)[1], expected, "tczyx")
    assert_replayed(replay(first)[1], *tifffile_reads(first))
    # Any file of the set leads to all of it, also one that has another name now.
    assert_replayed(replay(tmp_path / "set_t2.ome.tif")[1], expected, "tczyx")
    (tmp_path / "set_t2.ome.tif").rename(tmp_path / "renamed.ome.tif")
    # Whether frames are read as they are needed, or lie in memory before.
    for options in [["--dma"], ["--preload"], []]:
        report, out = replay(first, *options, code=4)
        assert report["missing"] == [{"start": 12, "end": 18}] and report["frames_missing"] == 6
    assert any("set_t2.ome.tif is not there" in note for note in report["notes"])
    holed = data.copy()
    holed[2] = 0
    assert_replayed(out, np.ascontiguousarray(holed.transpose(0, 2, 1, 3, 4)), "tczyx")
    assert_replayed(replay(tmp_path / "renamed.ome.tif")[1], expected, "tczyx")


def test_sets_of_ome_tiff_without_their_end(replay, tmp_path):
    data = volume(4, 3, 2, 20, 30)
    first = ome_set(tmp_path, data)
    (tmp_path / "set_t3.ome.tif").unlink()
    report, out = replay(first, code=4)
    assert report["missing"] == [{"start": 18, "end": 24}] and report["frames_missing"] == 6
    assert_replayed(out, np.ascontiguousarray(data[:3].transpose(0, 2, 1, 3, 4)), "tczyx")


def test_companion_files(replay, refused, tmp_path):
    data = volume(4, 3, 2, 20, 30)
    first = ome_set(tmp_path, data, companion=True)
    expected = data.transpose(0, 2, 1, 3, 4)
    for source in [first, tmp_path / "set.companion.ome", tmp_path]:
        assert_replayed(replay(source)[1], expected, "tczyx")
    (tmp_path / "else.ome").write_text("<svg/>")
    assert "no OME-XML" in refused(tmp_path / "else.ome")
    (tmp_path / "broken.companion.ome").write_text("<OME")
    assert "well-formed" in refused(tmp_path / "broken.companion.ome")


def test_names_of_files_lead_nowhere_else(refused, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "here").mkdir()
    data = volume(1, 3, 2, 20, 30)
    write_pages(tmp_path / "elsewhere/secret.tif", data.reshape(-1, 20, 30))
    for name in ["../elsewhere/secret.tif", str(tmp_path / "elsewhere/secret.tif")]:
        blocks = [block(0, 6, name, uuid.UUID(int=7))]
        xml = ome_xml([ome_image("a", "XYCZT", {**SIZES, "T": 1}, blocks)])
        (tmp_path / "here/set.companion.ome").write_text(xml)
        assert "none of the pages" in refused(tmp_path / "here/set.companion.ome")


def test_links_lead_nowhere_else(replay, refused, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "here").mkdir()
    data = volume(4, 3, 2, 20, 30)
    first = ome_set(tmp_path / "here", data)
    (tmp_path / "here/set_t1.ome.tif").rename(tmp_path / "elsewhere/secret.tif")
    (tmp_path / "here/set_t1.ome.tif").symlink_to(tmp_path / "elsewhere/secret.tif")
    report, _ = replay(first, code=4)
    assert report["missing"] == [{"start": 6, "end": 12}] and "--follow-links" in " ".join(report["notes"])
    assert "--follow-links" in refused(tmp_path / "here")
    for source in [first, tmp_path / "here"]:
        assert_replayed(replay(source, "--follow-links")[1], data.transpose(0, 2, 1, 3, 4), "tczyx")


def test_several_images_are_chosen_from(replay, refused, tmp_path):
    small, large = volume(3, 20, 30), volume(2, 2, 40, 50)
    with tifffile.TiffWriter(tmp_path / "in.ome.tif", ome=True) as tif:
        tif.write(small, metadata={"axes": "TYX", "Name": "small"}, **GRAY)
        tif.write(large, metadata={"axes": "TCYX", "Name": "large"}, **GRAY)
    said = refused(tmp_path / "in.ome.tif", code=2)
    assert "2 images" in said and "0: small (T 3" in said and "1: large" in said and "--series" in said
    assert "2 images" in refused(tmp_path / "in.ome.tif", "--series", 2, code=2)
    assert_replayed(replay(tmp_path / "in.ome.tif", "--series", 0)[1], small, "tyx")
    assert_replayed(replay(tmp_path / "in.ome.tif", "--series", 1)[1], large, "tcyx")
    tifffile.imwrite(tmp_path / "one.tif", small, **GRAY)
    assert_replayed(replay(tmp_path / "one.tif", "--series", 0)[1], small, "tyx")
    assert "one image" in refused(tmp_path / "one.tif", "--series", 1, code=2)


def test_ome_xml_of_sizes_that_no_file_has(refused, tmp_path):
    for sizes in [{"T": 10**15}, {"T": 2**40, "Z": 2**40}]:
        xml = ome_xml([ome_image("a", "XYCZT", {**SIZES, **sizes}, [])])
        write_pages(tmp_path / "in.ome.tif", volume(2, 20, 30), xml)
        assert "claims planes" in refused(tmp_path / "in.ome.tif")


def stage_position(x, y):
    """As the summary of Micro-Manager 2 has it."""
    devices = [{"Device": "Z", "Position_um": [7.0]}, {"Device": "XY", "Position_um": [x, y]}]
    return {"Label": "here", "DefaultXYStage": "XY", "DefaultZStage": "Z", "DevicePositions": devices}


def mm_stack(path, data, positions=(0,), stage=()):
    """A Micro-Manager stack of positions, t, z, c as it is when no OME-XML was written; times are the slowest."""
    frames, slices, channels = data.shape[1:4]
    summary = {"MicroManagerVersion": "2.0", "Frames": frames, "Slices": slices, "Channels": channels,
               "Positions": len(data), "SlicesFirst": True, "PixelSize_um": 0.5, "z-step_um": 2.0, "Interval_ms": 100.0,
               "ChNames": ["DAPI", "GFP"], "StagePositions": [stage_position(*place) for place in stage]}  # fmt: skip
    summary = json.dumps(summary).encode()
    summary += b" " * (len(summary) % 2)
    height, width = data.shape[-2:]
    places = [(p, *place) for place in np.ndindex(data.shape[1:4]) for p in positions]
    page_bytes = 2 + 13 * 12 + 4 + height * width * 2
    first = 40 + len(summary)
    pages, table = b"", b""
    for number, (p, t, z, c) in enumerate(places):
        start = first + number * page_bytes
        fields = [(254, 4, 0), (256, 4, width), (257, 4, height), (258, 3, 16), (259, 3, 1), (262, 3, 1),
                  (273, 4, start + 162), (277, 3, 1), (278, 4, height), (279, 4, height * width * 2), (284, 3, 1),
                  (296, 3, 1)]  # fmt: skip
        pages += struct.pack("<H", 13) + b"".join(struct.pack("<HHII", tag, kind, 1, at) for tag, kind, at in fields)
        pages += struct.pack("<HHI4s", 51123, 2, 3, b"{}")
        pages += struct.pack("<I", start + page_bytes if number + 1 < len(places) else 0) + data[p, t, z, c].tobytes()
        table += struct.pack("<5I", c, z, t, p, start)
    words = [54773648, first + len(pages), 483765892, 0, 99384722, 0, 2355492, len(summary)]
    head = b"II*\0" + struct.pack("<9I", first, *words)
    path.write_bytes(head + summary + pages + struct.pack("<II", 3453623, len(places)) + table)


def shifted(raw, by):
    """A little-endian classic TIFF with everything behind its head moved back."""
    out = bytearray(raw[:8] + bytes(by) + raw[8:])
    (offset,) = struct.unpack_from("<I", raw, 4)
    struct.pack_into("<I", out, 4, offset + by)
    while offset:
        (count,) = struct.unpack_from("<H", raw, offset)
        for field in range(offset + 2, offset + 2 + 12 * count, 12):
            tag, kind, length, value = struct.unpack_from("<HHII", raw, field)
            size = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8}[kind] * length
            if size > 4 or tag == 273:
                struct.pack_into("<I", out, field + by + 8, value + by)
            if size > 4 and tag == 273:
                for entry in range(value, value + size, 4):
                    struct.pack_into("<I", out, entry + by, struct.unpack_from("<I", raw, entry)[0] + by)
        (following,) = struct.unpack_from("<I", raw, offset + 2 + 12 * count)
        struct.pack_into("<I", out, offset + by + 2 + 12 * count, following + by if following else 0)
        offset = following
    return bytes(out)


def place(path):
    """Where an image is, along x and y."""
    (level,) = zarr.open_group(path, mode="r").attrs["ome"]["multiscales"][0]["datasets"]
    _, moved = level["coordinateTransformations"]
    return moved["translation"][-1], moved["translation"][-2]


def test_micro_manager_stacks_by_their_index(replay, refused, tmp_path):
    data = volume(1, 4, 3, 2, 20, 30)
    path = tmp_path / "run_MMStack_Pos0.ome.tif"
    mm_stack(path, data)
    _, out = replay(path)
    assert_replayed(out, data[0].transpose(0, 2, 1, 3, 4), "tczyx")
    assert_replayed(out, *tifffile_reads(path))
    ome = zarr.open_group(out, mode="r").attrs["ome"]
    assert ome["multiscales"][0]["datasets"][0]["coordinateTransformations"][0]["scale"] == [100, 1, 2, 0.5, 0.5]
    assert [channel["label"] for channel in ome["omero"]["channels"]] == ["DAPI", "GFP"]
    # Several positions in one file.
    both = volume(2, 4, 3, 2, 20, 30)
    stage = [(10.5, -20.0), (300.0, 4.25)]
    mm_stack(tmp_path / "both_MMStack.ome.tif", both, positions=(0, 1), stage=stage)
    assert "2 positions" in refused(tmp_path / "both_MMStack.ome.tif", code=2)
    for position in (0, 1):
        _, out = replay(tmp_path / "both_MMStack.ome.tif", "--series", position)
        assert_replayed(out, both[position].transpose(0, 2, 1, 3, 4), "tczyx")
        assert place(out) == stage[position]


def test_micro_manager_positions_in_files_of_their_own(replay, refused, tmp_path):
    data = volume(2, 4, 3, 2, 20, 30)
    names = [f"run_MMStack_Pos{p}.ome.tif" for p in (0, 1)]
    numbers = [uuid.UUID(int=p + 1) for p in (0, 1)]
    places = list(np.ndindex(4, 3, 2))
    images = []
    for p in (0, 1):
        blocks = [block(i, 1, names[p], numbers[p], T=t, Z=z, C=c) for i, (t, z, c) in enumerate(places)]
        images.append(ome_image(f"Pos{p}", "XYCZT", SIZES, blocks))
    for p in (0, 1):
        write_pages(tmp_path / names[p], data[p].reshape(-1, 20, 30), ome_xml(images, numbers[p]))
    for p in (0, 1):
        report, out = replay(tmp_path / names[p])
        assert_replayed(out, data[p].transpose(0, 2, 1, 3, 4), "tczyx")
        assert "image" in report["notes"][0]
        assert_replayed(replay(tmp_path, "--series", p)[1], data[p].transpose(0, 2, 1, 3, 4), "tczyx")


def test_micro_manager_files_of_one_image(replay, refused, tmp_path):
    data = volume(2, 4, 3, 2, 20, 30)
    for p, t, z, c in np.ndindex(data.shape[:4]):
        name = f"img_channel{c:03}_position{p:03}_time{t:09}_z{z:03}.tif"
        tifffile.imwrite(tmp_path / name, data[p, t, z, c], **GRAY)
    (tmp_path / "metadata.txt").write_text('{"Summary": {"PixelSize_um": 0.25, "ChNames": ["a", "b"]}}')
    assert "2 positions" in refused(tmp_path, code=2)
    _, out = replay(tmp_path, "--series", 1)
    assert_replayed(out, data[1].transpose(0, 2, 1, 3, 4), "tczyx")
    (tmp_path / "img_channel001_position000_time000000002_z000.tif").unlink()
    report, out = replay(tmp_path, "--series", 0, code=4)
    assert report["missing"] == [{"start": 13, "end": 14}]
    old = tmp_path / "Pos0"
    old.mkdir()
    for t, c in np.ndindex(4, 2):
        tifffile.imwrite(old / f"img_{t:09}_{['DAPI', 'GFP'][c]}_000.tif", data[0, t, 0, c], **GRAY)
    assert_replayed(replay(old)[1], data[0, :, 0], "tcyx")


def nd_tiff(folder, data, axes, names=None, dtype=1, split=None, stage=()):
    """NDTiff of version 3: planes in the order of `axes`, split into files."""
    positions = [stage_position(*place) for place in stage]
    summary = json.dumps({"PixelSize_um": 0.5, "StagePositions": positions}).encode()
    names = names or {}
    index, files = b"", {}
    outer = data.shape[: len(axes)]
    for number, place in enumerate(np.ndindex(outer)):
        file = f"run_NDTiffStack{f'_{number // split}' if split and number >= split else ''}.tif"
        plane = data[place]
        if file not in files:
            tags = [(51123, "s", 0, '{"a": 1}', True)]
            options = {**(RGB if dtype == 2 else GRAY), "metadata": None, "extratags": tags}
            tifffile.imwrite(folder / file, plane, **options)
            raw = (folder / file).read_bytes()
            by = 28 - 8 + len(summary)
            moved = bytearray(shifted(raw, by + by % 2))
            moved[8 : 28 + len(summary)] = struct.pack("<5I", 483729, 3, 3, 2355492, len(summary)) + summary
            files[file] = moved
            with tifffile.TiffFile(folder / file) as tif:
                offset = tif.pages[0].dataoffsets[0] + by + by % 2
        else:
            offset = len(files[file])
            files[file] += plane.tobytes()
        at = {axis: names.get(axis, range(1000))[i] for axis, i in zip(axes, place)}
        text = json.dumps(at).encode()
        index += struct.pack("<I", len(text)) + text + struct.pack("<I", len(file)) + file.encode()
        index += struct.pack("<8I", offset, plane.shape[1], plane.shape[0], dtype, 0, 0, 0, 0)
    for file, content in files.items():
        (folder / file).write_bytes(content)
    (folder / "NDTiff.index").write_bytes(index)
    return folder / "run_NDTiffStack.tif"


def test_nd_tiff(replay, tmp_path):
    data = volume(4, 2, 3, 20, 30)
    first = nd_tiff(tmp_path, data, ["time", "channel", "z"], {"channel": ["GFP", "DAPI"]}, split=10)
    expected = data
    for source in [tmp_path, tmp_path / "NDTiff.index", first]:
        _, out = replay(source)
        assert_replayed(out, expected, "tczyx")
    assert_replayed(out, *tifffile_reads(first))
    ome = zarr.open_group(out, mode="r").attrs["ome"]
    assert [channel["label"] for channel in ome["omero"]["channels"]] == ["GFP", "DAPI"]
    assert ome["multiscales"][0]["datasets"][0]["coordinateTransformations"][0]["scale"][-1] == 0.5


def test_nd_tiff_below_the_folder_that_is_named(replay, refused, tmp_path):
    run, data = tmp_path / "run", volume(4, 20, 30)
    for name in ["run_1", "settings"]:
        (run / name).mkdir(parents=True)
    (run / "settings/display.json").write_text("{}")
    nd_tiff(run / "run_1", data, ["time"])
    _, out = replay(run)
    assert_replayed(out, data, "tyx")
    (run / "run_2").mkdir()
    nd_tiff(run / "run_2", data, ["time"])
    said = refused(run)
    assert f"replay one of them: {run}/run_1, {run}/run_2" in said
    # Which of a recording of NDTiff and another one is meant, nobody knows either.
    (run / "run_2/NDTiff.index").unlink()
    assert f"replay one of them: {run}/run_1, {run}/run_2" in refused(run)


@pytest.mark.parametrize("axes", [["z", "time"], ["channel", "time", "z"]])
def test_nd_tiff_in_other_orders(replay, tmp_path, axes):
    data = volume(*[4, 2, 3][: len(axes)], 20, 30)
    first = nd_tiff(tmp_path, data, axes)
    _, out = replay(tmp_path)
    assert_replayed(out, *tifffile_reads(first))


def test_nd_tiff_of_colours(replay, tmp_path):
    data = volume(4, 20, 30, 3, dtype="u1")
    nd_tiff(tmp_path, data, ["time"], dtype=2)
    _, out = replay(tmp_path)
    assert_replayed(out, np.ascontiguousarray(data.transpose(0, 3, 1, 2)), "tcyx")


@pytest.mark.parametrize("names", [{}, {"position": ["Pos0", "Pos1"]}])
def test_nd_tiff_with_positions(replay, refused, tmp_path, names):
    data = volume(2, 4, 20, 30)
    stage = [(10.5, -20.0), (300.0, 4.25)]
    nd_tiff(tmp_path, data, ["position", "time"], names, stage=stage)
    assert "2 positions" in refused(tmp_path, code=2)
    for position in (0, 1):
        _, out = replay(tmp_path, "--series", position)
        assert_replayed(out, data[position], "tyx")
        assert place(out) == stage[position]


def test_nd_tiff_with_missing_planes(replay, refused, tmp_path):
    data = volume(6, 20, 30)
    nd_tiff(tmp_path, data, ["time"], split=3)
    whole = (tmp_path / "NDTiff.index").read_bytes()
    length = len(whole) // 6 + 1
    # An index that was cut off: whole entries count.
    (tmp_path / "NDTiff.index").write_bytes(whole[: length * 4])
    report, out = replay(tmp_path, code=3)
    assert "breaks off" in report["error"]["message"] and report["frames_written"] in (3, 4)
    (tmp_path / "NDTiff.index").write_bytes(whole)
    (tmp_path / "run_NDTiffStack_1.tif").unlink()
    report, out = replay(tmp_path, code=4)
    assert report["missing"] == [{"start": 3, "end": 6}]
    assert_same(open_zarr_python(out / "0")[...], data[:3])
    (tmp_path / "NDTiff.index").write_bytes(struct.pack("<I", 0xFFFFFFF0) + whole[4:])
    assert "no whole entry" in refused(tmp_path)


def test_folders_of_tiff(replay, refused, tmp_path):
    data = volume(12, 20, 30)
    for index, page in enumerate(data):
        tifffile.imwrite(tmp_path / f"frame{index}.tif", page, **GRAY)
    (tmp_path / "notes.txt").write_text("not a frame")
    _, out = replay(tmp_path)
    assert_replayed(out, data, "tyx")
    tifffile.imwrite(tmp_path / "frame5.tif", data[5, :10], **GRAY)
    said = refused(tmp_path)
    assert "frame5.tif is 30 x 10 uint16" in said and "frame0.tif is 30 x 20 uint16" in said
    assert "no image" not in refused(tmp_path, "--shape", "3,4", code=2)


def test_images_of_several_arrays_and_plates(replay, refused, tmp_path):
    data = volume(4, 20, 30)
    image = zarr.open_group(tmp_path / "plate.zarr/A/1/0", mode="w")
    image.create_array("0", data=data)
    image.create_array("1", data=data[:, ::2, ::2])
    levels = [{"path": path, "coordinateTransformations": [{"type": "scale", "scale": [1, 1, 1]}]} for path in "01"]
    axes = [{"name": "t", "type": "time"}, {"name": "y", "type": "space"}, {"name": "x", "type": "space"}]
    image.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": levels}]}
    plate = zarr.open_group(tmp_path / "plate.zarr", mode="a")
    plate.attrs["ome"] = {"version": "0.5", "plate": {"wells": [{"path": "A/1"}], "rows": [], "columns": []}}
    assert_replayed(replay(tmp_path / "plate.zarr/A/1/0")[1], data, "tyx")
    small = np.ascontiguousarray(data[:, ::2, ::2])
    assert_same(open_zarr_python(replay(tmp_path / "plate.zarr/A/1/0/1")[1] / "0")[...], small)
    assert "A/1/0" in refused(tmp_path / "plate.zarr")
    well = zarr.open_group(tmp_path / "plate.zarr/A/1", mode="a")
    well.attrs["ome"] = {"version": "0.5", "well": {"images": [{"path": "0"}, {"path": "7"}]}}
    told = refused(tmp_path / "plate.zarr/A/1")
    assert all(f"{tmp_path}/plate.zarr/A/1/{name}" in told for name in "07")
