"""File systems of a test's own, small enough to fill, and with a plug that can be pulled."""

import fcntl
import os
import shutil
import struct
import subprocess
import time
from pathlib import Path

# From linux/fs.h: _IOR('X', 125, __u32); 2 means that the journal is not flushed.
FS_IOC_SHUTDOWN, NO_LOG_FLUSH = 0x8004587D, 2


def why_not():
    """Why there can be no mounts here, or None."""
    if os.geteuid() != 0:
        return "mounting needs root"
    for program in ("mkfs.ext4", "mount", "umount"):
        if not shutil.which(program):
            return f"there is no {program}"
    return None


class Mount:
    """A tmpfs, or an ext4 in a file, below `folder`; gone at the end."""

    def __init__(self, kind, mib, folder):
        self.at, self.image = Path(folder) / "mount", Path(folder) / "image"
        self.kind, self.mib = kind, mib

    def __enter__(self):
        self.at.mkdir()
        if self.kind == "tmpfs":
            _run("mount", "-t", "tmpfs", "-o", f"size={self.mib}m", "none", self.at)
        else:
            with self.image.open("wb") as file:
                file.truncate(self.mib << 20)
            _run(f"mkfs.{self.kind}", "-q", self.image)
            self._mount()
        return self

    def _mount(self):
        _run("mount", "-o", "loop", self.image, self.at)

    def cut_power(self):
        """Loses everything that has not reached the device, and the part of the journal that has not."""
        root = os.open(self.at, os.O_RDONLY)
        try:
            fcntl.ioctl(root, FS_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(root)

    def mount_again(self):
        for patience in range(100):
            try:
                _run("umount", self.at)
                break
            except OSError:
                # A process that was killed may still hold a file.
                if patience == 99:
                    raise
                time.sleep(0.1)
        self._mount()

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", str(self.at)], capture_output=True)
        self.image.unlink(missing_ok=True)
        self.at.rmdir()


def _run(*words):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
