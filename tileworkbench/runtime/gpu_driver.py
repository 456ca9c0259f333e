"""The version of NVIDIA's driver, as people know it ("580.95.05"); the driver itself only tells the CUDA version that it speaks."""

from __future__ import annotations

import subprocess
from pathlib import Path

_MODULE = Path("/sys/module/nvidia/version")
_ASK = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")


def driver_version() -> str:
    """By the kernel's module, else by nvidia-smi; "unknown" where neither says."""
    try:
        return _MODULE.read_text().strip()
    except OSError:
        pass
    try:
        said = subprocess.run(_ASK, capture_output=True, text=True, timeout=20, check=True).stdout.split()
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return said[0] if said else "unknown"
