"""The names of acquire-zarr on this engine: beside the real one, where that is installed."""

from __future__ import annotations

import importlib
import itertools
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from conftest import by_tensorstore

import shardwright as sw
import shardwright.acquire_zarr as own


def dimension(aqz: ModuleType, name: str, kind: str, size: int, chunk: int, shard: int = 1, **more: Any) -> Any:
    kinds = aqz.DimensionType
    return aqz.Dimension(
        name=name,
        kind=getattr(kinds, kind),
        array_size_px=size,
        chunk_size_px=chunk,
        shard_size_chunks=shard,
        **more,
    )


def movie(aqz: ModuleType, frames: int = 0) -> list[Any]:
    return [
        dimension(aqz, "t", "TIME", frames, 2, 2),
        dimension(aqz, "y", "SPACE", 9, 4, unit="micrometer", scale=0.5),
        dimension(aqz, "x", "SPACE", 14, 8, 2),
    ]


def rival() -> ModuleType:
    return pytest.importorskip("acquire_zarr", reason="acquire-zarr 0.10.0 is not installed")


def _tidy(thing: dict[str, Any]) -> dict[str, Any]:
    if thing.get("name") == "bytes":
        return {"name": "bytes"}
    return thing


def tree(root: Path) -> dict[str, Any]:
    """The documents of a hierarchy without what may differ, and the pixels of its arrays."""
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("zarr.json")):
        document = json.loads(path.read_text())
        key = path.parent.relative_to(root).as_posix()
        if document["node_type"] == "array":
            names = (
                "shape",
                "data_type",
                "dimension_names",
                "fill_value",
                "codecs",
                "chunk_key_encoding",
                "attributes",
            )
            # Of single bytes, either is right.
            text = json.dumps({name: document[name] for name in names})
            found[key] = json.loads(text, object_hook=_tidy)
            found[f"{key} pixels"] = by_tensorstore(root, key).tolist()
        else:
            text = json.dumps(document["attributes"])
            for image in json.loads(text).get("ome", {}).get("multiscales", []):
                image.get("metadata", {}).pop("description", None)
            attributes = json.loads(text)
            for image in attributes.get("ome", {}).get("multiscales", []):
                for name in ("description", "version"):
                    image.get("metadata", {}).pop(name, None)
            found[key] = attributes
    return found


def both(tmp_path: Path, write: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    trees = []
    for name, aqz in (("own", own), ("rival", rival())):
        (tmp_path / name).mkdir()
        write(aqz, tmp_path / name / "x.zarr")
        trees.append(tree(tmp_path / name / "x.zarr"))
    return trees[0], trees[1]


def test_every_public_name_is_here() -> None:
    aqz = rival()
    public = {name for name in dir(aqz) if not name.startswith("_")}
    assert public <= set(own.__all__)
    for name in public:
        theirs, ours = getattr(aqz, name), getattr(own, name)
        if isinstance(theirs, type):
            members = {member for member in dir(theirs) if not member.startswith("_")}
            ours_has = set(dir(ours)) | set(getattr(ours, "_defaults", {})) | {"name", "value"}
            assert members <= ours_has, name


@pytest.mark.parametrize("dtype", ["u1", "i2", "f8"])
@pytest.mark.parametrize("pieces", [[1], [3, 100, 252, 7], [252]])
def test_bytes_in_any_pieces(tmp_path: Path, dtype: str, pieces: list[int]) -> None:
    data = np.arange(7 * 9 * 14).reshape(7, 9, 14).astype(dtype)

    def write(aqz: ModuleType, path: Path) -> None:
        array = aqz.ArraySettings(dimensions=movie(aqz), data_type=np.dtype(dtype).type)
        stream = aqz.ZarrStream(aqz.StreamSettings(store_path=str(path), arrays=[array]))
        flat = np.frombuffer(data.tobytes(), "u1")
        at = 0
        for count in itertools.cycle(pieces):
            stream.append(flat[at : at + 50 * count])
            at += 50 * count
            if at >= len(flat):
                break
        # What is left of a frame is none.
        stream.append(flat[:5])
        stream.close()

    ours, theirs = both(tmp_path, write)
    assert ours == theirs
    np.testing.assert_array_equal(ours[". pixels"], data)


@pytest.mark.parametrize(
    "compression", [None, ("BLOSC1", "BLOSC_LZ4", 1, 1), ("BLOSC1", "BLOSC_ZSTD", 3, 2), ("ZSTD", "ZSTD", 5, 0)]
)
def test_codecs(tmp_path: Path, compression: Any) -> None:
    def write(aqz: ModuleType, path: Path) -> None:
        settings = None
        if compression:
            compressor, codec, level, shuffle = compression
            settings = aqz.CompressionSettings(
                compressor=aqz.Compressor[compressor] if aqz is own else getattr(aqz.Compressor, compressor),
                codec=getattr(aqz.CompressionCodec, codec),
                level=level,
                shuffle=shuffle,
            )
        array = aqz.ArraySettings(dimensions=movie(aqz, 4), data_type=np.uint16, compression=settings)
        stream = aqz.ZarrStream(aqz.StreamSettings(store_path=str(path), arrays=[array]))
        stream.append(np.arange(3 * 9 * 14, dtype="u2"))
        stream.close()

    ours, theirs = both(tmp_path, write)
    for found in (ours, theirs):
        for codec in found["."]["codecs"][0]["configuration"]["codecs"]:
            # Both are what readers take for no block size.
            codec.get("configuration", {}).pop("blocksize", None)
    assert ours == theirs


@pytest.mark.parametrize("method", ["DECIMATE", "MEAN", "MIN", "MAX"])
@pytest.mark.parametrize("dtype", ["u1", "i2", "u4", "f4"])
def test_levels_are_pixel_for_pixel_the_same(tmp_path: Path, method: str, dtype: str) -> None:
    data = np.random.default_rng(0).integers(0, 200, (2, 5, 9, 14)).astype(dtype)
    if dtype != "u1" and dtype != "u4":
        data -= 100

    def write(aqz: ModuleType, path: Path) -> None:
        planes = movie(aqz)
        dims = [planes[0], dimension(aqz, "z", "SPACE", 5, 2), *planes[1:]]
        array = aqz.ArraySettings(
            dimensions=dims,
            data_type=np.dtype(dtype).type,
            downsampling_method=getattr(aqz.DownsamplingMethod, method),
            max_levels=2,
        )
        stream = aqz.ZarrStream(aqz.StreamSettings(store_path=str(path), arrays=[array]))
        stream.append(data)
        stream.close()

    ours, theirs = both(tmp_path, write)
    assert ours == theirs


@pytest.mark.parametrize(
    ("sizes", "chunks", "order"),
    [((6, 3), (1, 1), "tcz"), ((7, 3), (3, 1), "tcz"), ((7, 2), (3, 2), "tcz"), ((6, 3), (4, 1), "tzc")],
)
def test_levels_read_each_chunk_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, int], chunks: tuple[int, int], order: str
) -> None:
    """Also those in which many planes are, or whose planes are not stored in the order in which they came."""
    planes, colours = sizes
    dims = [
        dimension(own, "t", "TIME", 0, 1),
        dimension(own, "c", "CHANNEL", colours, chunks[1]),
        dimension(own, "z", "SPACE", planes, chunks[0]),
        dimension(own, "y", "SPACE", 16, 4),
        dimension(own, "x", "SPACE", 16, 4),
    ]
    array = own.ArraySettings(
        dimensions=dims,
        data_type=np.uint16,
        downsampling_method=own.DownsamplingMethod.MEAN,
        storage_dimension_order=[*order, "y", "x"],
    )
    levels = importlib.import_module("shardwright.acquire_zarr._levels")
    opened = []

    class Counted:
        def __init__(self, path: Path) -> None:
            self.array = sw.open(path)
            self.chunk_shape, self.shape = self.array.chunk_shape, self.array.shape
            self.pixels = 0
            opened.append(self)

        def __getitem__(self, index: Any) -> Any:
            assert all(part.start % length == 0 for part, length in zip(index, self.chunk_shape, strict=False))
            pixels = self.array[index]
            self.pixels += pixels.size
            return pixels

    monkeypatch.setattr(levels, "open", Counted)
    stream = own.ZarrStream(own.StreamSettings(store_path=str(tmp_path / "x.zarr"), arrays=[array]))
    data = np.random.default_rng(0).integers(0, 60000, (2, colours, planes, 16, 16)).astype("u2")
    stream.append(data)
    stream.close()
    assert len(opened) >= 2
    assert all(source.pixels == source.array.size for source in opened)
    found = by_tensorstore(tmp_path / "x.zarr", "1")
    wanted = data if order == "tcz" else data.transpose(0, 2, 1, 3, 4)
    wanted = wanted.astype("u4").reshape(*wanted.shape[:3], 8, 2, 8, 2).sum((4, 6)) // 4
    if order == "tcz" and planes > chunks[0]:
        # Of an odd number, the last is the mean of itself.
        pairs = np.concatenate([wanted, wanted[:, :, -1:]], 2)[:, :, : planes + planes % 2]
        wanted = (pairs[:, :, ::2] + pairs[:, :, 1::2]) // 2
    np.testing.assert_array_equal(found, wanted)


def test_several_arrays_and_plates(tmp_path: Path) -> None:
    def write(aqz: ModuleType, path: Path) -> None:
        fields = [
            aqz.FieldOfView(path=f"f{at}", acquisition_id=at, array_settings=aqz.ArraySettings(dimensions=movie(aqz)))
            for at in range(2)
        ]
        plate = aqz.Plate(
            path="plate",
            name="P",
            row_names=["A", "B"],
            column_names=["1"],
            wells=[aqz.Well(row_name="B", column_name="1", images=fields)],
            acquisitions=[aqz.Acquisition(id=at, name=f"a{at}", start_time=at) for at in range(2)],
        )
        arrays = [
            aqz.ArraySettings(output_key="deep/er", dimensions=movie(aqz), data_type=np.uint16),
            aqz.ArraySettings(output_key="image", dimensions=movie(aqz), is_ngff=True),
        ]
        settings = aqz.StreamSettings(store_path=str(path), arrays=arrays, hcs_plates=[plate], max_threads=2)
        assert set(settings.get_array_keys()) == {"deep/er", "image", "plate/B/1/f0", "plate/B/1/f1"}
        stream = aqz.ZarrStream(settings)
        for at, key in enumerate(settings.get_array_keys()):
            stream.append(np.full((2, 9, 14), at, "u2" if key == "deep/er" else "u1"), key=key)
        stream.write_custom_metadata({"a": [1]}, array_key="image", metadata_key="more")
        stream.write_custom_metadata('{"b": 2}', array_key="deep/er")
        with pytest.raises(RuntimeError):
            stream.append(np.zeros(3, "u1"), key="nowhere")
        stream.close()
        assert not stream.is_active()

    ours, theirs = both(tmp_path, write)
    # Which fills what is the business of sets.
    for found in (ours, theirs):
        for key in [key for key in found if key.endswith("pixels")]:
            found[key] = np.shape(found[key])
    assert ours == theirs


def test_skipped_bytes_are_zeros(tmp_path: Path) -> None:
    def write(aqz: ModuleType, path: Path) -> None:
        array = aqz.ArraySettings(dimensions=movie(aqz), data_type=np.uint8)
        stream = aqz.ZarrStream(aqz.StreamSettings(store_path=str(path), arrays=[array]))
        frame = np.full((9, 14), 7, "u1")
        stream.append(frame)
        stream.skip(3 * frame.nbytes)
        stream.append(frame)
        stream.skip(frame.nbytes // 2)
        stream.append(frame[5:])
        stream.append(np.ones(frame.nbytes - frame.nbytes // 2 - frame[5:].size, "u1"))
        stream.skip(2 * frame.nbytes)
        stream.close()

    ours, theirs = both(tmp_path, write)
    assert ours == theirs


def test_settings_are_the_same_documents() -> None:
    aqz = rival()

    def settings(of: ModuleType) -> Any:
        array = of.ArraySettings(
            output_key="a",
            dimensions=movie(of),
            compression=of.CompressionSettings(
                compressor=of.Compressor.BLOSC1, codec=of.CompressionCodec.BLOSC_LZ4, level=2, shuffle=1
            ),
            storage_dimension_order=["t", "x", "y"],
        )
        return of.StreamSettings(store_path="x.zarr", arrays=[array], overwrite=True)

    assert settings(own).to_dict() == settings(aqz).to_dict()
    again = own.StreamSettings.from_string(settings(aqz).to_json())
    assert again.to_dict() == settings(own).to_dict()
    assert aqz.StreamSettings.from_string(settings(own).to_yaml()).to_dict() == settings(aqz).to_dict()


def test_what_can_not_be_done_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    array = own.ArraySettings(dimensions=movie(own, 2))
    path = str(tmp_path / "x.zarr")
    with pytest.raises(NotImplementedError, match="S3"):
        own.ZarrStream(own.StreamSettings(store_path=path, arrays=[array], s3=own.S3Settings(endpoint="e")))
    for wrong in (
        {"arrays": []},
        {"arrays": [array], "store_path": ""},
        {"arrays": [array, array]},
        {"arrays": [own.ArraySettings(dimensions=movie(own)[2:])]},
        {
            "arrays": [
                own.ArraySettings(dimensions=[dimension(own, "y", "SPACE", 0, 2), dimension(own, "x", "SPACE", 3, 3)])
            ]
        },
    ):
        with pytest.raises(RuntimeError):
            own.ZarrStream(own.StreamSettings(**{"store_path": path, **wrong}))
    with pytest.raises(TypeError, match="frames"):
        own.ArraySettings(frames=2)
    with pytest.raises(TypeError, match="float16"):
        own.ArraySettings(data_type=np.float16)
    assert not list(tmp_path.iterdir())
    stream = own.ZarrStream(own.StreamSettings(store_path=path, arrays=[array]))
    stream.append(np.zeros((2, 9, 14), "u1"))
    with pytest.raises(RuntimeError, match="out of bounds"):
        stream.append(np.zeros(1, "u1"))
    with pytest.raises(TypeError):
        stream.append(b"0")  # type: ignore[arg-type]
    stream.close()
    with pytest.raises(RuntimeError, match="not open"):
        stream.append(np.zeros(1, "u1"))
    with pytest.raises(RuntimeError, match="exists"):
        own.ZarrStream(own.StreamSettings(store_path=path, arrays=[array]))
    own.ZarrStream(own.StreamSettings(store_path=path, arrays=[array], overwrite=True)).close()
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis").touch()
    with pytest.raises(RuntimeError, match="no Zarr store"):
        own.ZarrStream(own.StreamSettings(store_path=str(tmp_path / "precious"), arrays=[array], overwrite=True))


def test_a_file_in_the_way_of_chunks_is_an_error(tmp_path: Path) -> None:
    """Also if all pixels are zeros, of which no chunk is stored."""
    array = own.ArraySettings(dimensions=movie(own))
    stream = own.ZarrStream(own.StreamSettings(store_path=str(tmp_path / "x.zarr"), arrays=[array]))
    stream.append(np.zeros((2, 9, 14), "u1"))
    (tmp_path / "x.zarr" / "c").touch()
    with pytest.raises(RuntimeError, match="in the way"):
        stream.close()
    assert sw.verify(tmp_path / "x.zarr" / ".shardwright-live").is_sound


def test_an_import_is_all_that_changes() -> None:
    assert importlib.import_module("shardwright.acquire_zarr").__all__ == sorted(own.__all__, key=own.__all__.index)
    own.set_log_level(own.LogLevel.ERROR)
    assert own.get_log_level() == own.LogLevel.ERROR
    own.set_log_level(own.LogLevel.INFO)
