"""What is compared: frames, chunks, shards and codec of each case."""

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace


@dataclass(frozen=True)
class Case:
    """One task that every writer gets in the same words."""

    name: str
    frames: int
    pool: int  # Distinct frames, cycled; `frames` is a multiple.
    frame: tuple  # Rows and columns.
    chunk: tuple
    shard: tuple
    codec: str  # none, blosc-lz4 or blosc-zstd; level 1, bit shuffle.
    dtype: str = "u16"
    source: str = "camera"  # camera, or the path of a recording.
    frames_of: dict = field(default_factory=dict)  # Fewer frames for a slow writer.
    levels: int = 0  # Of a pyramid beside level 0: each half as many rows and columns, made of means.

    @property
    def element_bytes(self):
        return int(self.dtype[1:]) // 8

    @property
    def numpy_dtype(self):
        return "<" + {"u": "u", "i": "i", "f": "f"}[self.dtype[0]] + str(self.element_bytes)

    @property
    def zarr_dtype(self):
        return {"u": "uint", "i": "int", "f": "float"}[self.dtype[0]] + self.dtype[1:]

    @property
    def frame_bytes(self):
        return self.frame[0] * self.frame[1] * self.element_bytes

    def bytes_of(self, frames):
        """Of the pixels of so many frames, those of the levels that are made of them included."""
        return sum(frames * level.frame_bytes for level in self.with_levels())

    def with_levels(self):
        """The case, and what it says of the array of each level beside level 0."""
        arrays = [replace(self, levels=0)]
        for _ in range(self.levels):
            frame = tuple(-(-size // 2) for size in arrays[-1].frame)
            chunk = (self.chunk[0], *map(min, self.chunk[1:], frame))
            chunks = [-(-size // part) * part for size, part in zip(frame, chunk[1:])]
            shard = (self.shard[0], *map(min, self.shard[1:], chunks))
            arrays.append(replace(arrays[-1], frame=frame, chunk=chunk, shard=shard))
        return arrays

    @property
    def pool_bytes(self):
        return self.pool * self.frame_bytes

    @property
    def pool_key(self):
        """Cases with the same key share one file of frames."""
        return (self.source, self.pool, *self.frame, self.dtype)

    def frames_for(self, writer):
        return self.frames_of.get(writer, self.frames)

    @property
    def key(self):
        """Tells results of this case from those of another of the same name."""
        words = json.dumps(self.words(), sort_keys=True)
        return f"{self.name} {hashlib.sha256(words.encode()).hexdigest()[:8]}"

    def words(self):
        """The case for another process, as JSON; `told` reads it."""
        return asdict(self)

    @classmethod
    def told(cls, words):
        return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in words.items()})


CODECS = ("none", "blosc-lz4", "blosc-zstd")


def camera_cases(quick):
    """The sCMOS camera with flat and deep chunks, and a small region of interest at a high frame rate."""
    if quick:
        camera = Case("", frames=16, pool=8, frame=(256, 256), chunk=(), shard=(8, 256, 256), codec="")
        chunks = {"2-D chunks": (1, 64, 64), "3-D chunks": (4, 64, 64)}
        roi = Case("", 600, 60, (64, 64), (16, 64, 64), (128, 64, 64), "", frames_of={"zarr-python": 256})
    else:
        camera = Case("", frames=512, pool=64, frame=(2048, 2048), chunk=(), shard=(64, 2048, 2048), codec="")
        chunks = {"2-D chunks": (1, 512, 512), "3-D chunks": (16, 256, 256)}
        # zarr-python needs whole shards in memory and is slow: one of them tells its rate.
        roi = Case(
            "", 1_000_000, 4_000, (64, 64), (512, 64, 64), (65_536, 64, 64), "", frames_of={"zarr-python": 65_536}
        )
    cases = [
        replace(camera, name=f"{form}, {codec}", chunk=chunk, codec=codec)
        for form, chunk in chunks.items()
        for codec in CODECS
    ]
    cases.append(replace(roi, name="small ROI, blosc-lz4", codec="blosc-lz4"))
    # As many levels as acquire-zarr makes of these: one for each time that rows and columns of chunks can be halved.
    flat = replace(camera, chunk=chunks["2-D chunks"], levels=2)
    return cases + [
        replace(flat, name=f"2-D chunks, mean pyramid, {codec}", codec=codec) for codec in ("none", "blosc-lz4")
    ]


def recording_cases(name, path, frames, frame, dtype, quick):
    """A recording of the user's: flat chunks, as much of it as makes about 2 GB in memory-sized loops."""
    element_bytes = int(dtype[1:]) // 8
    frame_bytes = frame[0] * frame[1] * element_bytes
    budget = (1 << 20, 4 << 20) if quick else (512 << 20, 2 << 30)
    pool = max(1, min(frames, budget[0] // frame_bytes))
    loops = max(1, budget[1] // (pool * frame_bytes))
    side = tuple(min(512, size) for size in frame)
    whole = tuple(-(-size // part) * part for size, part in zip(frame, side))
    depth = max(1, min(pool * loops, budget[0] // frame_bytes))
    base = Case("", pool * loops, pool, tuple(frame), (1, *side), (depth, *whole), "", dtype, source=str(path))
    return [replace(base, name=f"{name}, {codec}", codec=codec) for codec in CODECS[1:]]
