"""Micro-Manager's DemoCamera by pip alone: a multi-position, multi-channel z-stack, written by shardwright.

pip install shardwright[ome-writers] pymmcore-plus==0.18.1 mm-test-adapters
python demo_camera.py demo.ome.zarr
"""

import sys

import mm_test_adapters
import ome_writers
import useq
from pymmcore_plus import CMMCorePlus

import shardwright.ome_writers


def demo_core() -> CMMCorePlus:
    """A microscope with a camera, channels, a stage and a focus drive, all of them simulated."""
    core = CMMCorePlus(mm_path=mm_test_adapters.device_adapter_path())
    core.loadSystemConfiguration("MMConfig_demo.cfg")
    core.setProperty("Camera", "PixelType", "16bit")
    core.setExposure(5)
    return core


def main(path: str) -> None:
    """Acquires two positions of two channels and three planes, twice."""
    shardwright.ome_writers.register()
    sequence = useq.MDASequence(
        stage_positions=[(0, 0, 0), (100, 50, 0)],
        channels=["DAPI", "FITC"],
        z_plan={"range": 4, "step": 2},
        time_plan={"interval": 0, "loops": 2},
        axis_order="tpcz",
    )
    output = ome_writers.AcquisitionSettings(root_path=path, format="shardwright", overwrite=True)
    # The runner does not keep it.
    core = demo_core()
    core.mda.run(sequence, output=output)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "demo.ome.zarr")
