"""Under what conditions it was measured: without them a figure means nothing."""

import os
import platform
import shutil
import subprocess
from datetime import datetime, timezone
from importlib.metadata import version

from programs import ROOT

PACKAGES = ("acquire-zarr", "tensorstore", "zarr", "numpy", "numcodecs")


def machine():
    return {
        "cpu": _first("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": 1024 * int(_first("/proc/meminfo", "MemTotal").split()[0]),
        "kernel": f"{platform.system()} {platform.release()}",
        "virtual": "hypervisor" in _first("/proc/cpuinfo", "flags").split(),
    }


def versions():
    return {
        "shardwright": _said("git", "describe", "--always", "--dirty", "--abbrev=12") or "unknown",
        "rustc": _said("rustc", "--version"),
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }


def file_system(path):
    """The type of the file system and the device that hold `path`."""
    mounts = [line.split()[:3] for line in open("/proc/self/mounts")]
    holds = [row for row in mounts if os.path.commonpath([row[1], os.path.realpath(path)]) == row[1]]
    device, _, kind = max(reversed(holds), key=lambda row: len(row[1]))
    return f"{kind} on {device}"


def room(path):
    return shutil.disk_usage(path).free


def memory_available():
    return 1024 * int(_first("/proc/meminfo", "MemAvailable").split()[0])


def load():
    return os.getloadavg()[0]


def now():
    return datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def _first(path, name):
    for line in open(path):
        if line.startswith(name):
            return line.split(":", 1)[1].strip()
    return "0 unknown"


def _said(*words):
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None
