"""Writers of OME-Zarr, which want other versions of what stands below them than the readers do: a request a line.

{"write": CELL, "path": DATASET}
"""

import pathlib
import sys
import warnings

warnings.simplefilter("ignore")

import ngff_zarr  # noqa: E402
import ome_zarr.format  # noqa: E402
import ome_zarr.writer  # noqa: E402
import zarr  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from pixels import pixels  # noqa: E402
from serve import serve  # noqa: E402


def by_ome_zarr(cell, data, path):
    v5 = cell["version"] == "0.5"
    fmt = ome_zarr.format.FormatV05() if v5 else ome_zarr.format.FormatV04()
    root = zarr.open_group(path, mode="w", zarr_format=3 if v5 else 2)
    storage = {"chunks": tuple(cell["chunk"])}
    if v5 and cell["shard"]:
        storage["shards"] = tuple(2 * size for size in cell["chunk"])
    common = {"fmt": fmt, "axes": cell["axes"], "storage_options": storage, "scale_factors": factors(cell)}
    scale = dict(zip(cell["axes"], map(float, cell["scale"])))
    ome_zarr.writer.write_image(data, root, scale=scale, **common)
    if cell["labels"]:
        ome_zarr.writer.write_labels((data > 1).astype("u1"), root, name="cells", scaler=None, **common)


def by_ngff_zarr(cell, data, path):
    scale = dict(zip(cell["axes"], map(float, cell["scale"])))
    image = ngff_zarr.to_ngff_image(data, dims=list(cell["axes"]), scale=scale)
    chunks = dict(zip(cell["axes"], cell["chunk"]))
    multiscales = ngff_zarr.to_multiscales(image, scale_factors=factors(cell), chunks=chunks)
    sharded = {"chunks_per_shard": 2} if cell["version"] == "0.5" and cell["shard"] else {}
    ngff_zarr.to_ngff_zarr(path, multiscales, version=cell["version"], **sharded)


def factors(cell):
    return [{name: 2 if name in "yx" else 1 for name in cell["axes"]}] if cell["scales"] > 1 else []


def answer(request):
    cell = request["write"]
    data = pixels(cell["pixels"], cell["dtype"], cell["shape"], [cell["seed"], cell["number"], 0])
    {"ome-zarr": by_ome_zarr, "ngff-zarr": by_ngff_zarr}[cell["writer"]](cell, data, request["path"])


if __name__ == "__main__":
    serve(answer)
