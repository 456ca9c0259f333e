"""What pyproject.toml promises: the version, the entry points, and how little the base install brings."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tileworkbench

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_one_version():
    assert tileworkbench.__version__ == PROJECT["version"]


@pytest.mark.parametrize(
    "value", [*PROJECT["scripts"].values(), *PROJECT["entry-points"]["tileworkbench.targets"].values()], ids=lambda v: v.partition(":")[0]
)
def test_entry_points_exist(value: str):
    module, _, name = value.partition(":")
    assert hasattr(importlib.import_module(module), name)


def test_the_base_install_is_small():
    base = {re.split(r"[^A-Za-z0-9_-]", requirement)[0].lower() for requirement in PROJECT["dependencies"]}
    heavy = {"torch", "jax", "playwright", "pytest-playwright", "jupyterlab", "notebook", "ipywidgets", "anywidget", "ziglang", "scipy", "pandas"}
    assert not base & heavy
    assert not [name for name in base if name.startswith(("cupy", "cuda", "nvidia"))]
    assert {"lab", "cc", "cuda", "test", "bench"} <= set(PROJECT["optional-dependencies"])


def test_importing_the_language_loads_nothing_heavy():
    """A kernel file must start quickly: pictures, widgets and array libraries come when they are asked for."""
    code = "import sys, tileworkbench.language; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"matplotlib", "IPython", "ipywidgets", "torch", "cupy", "pygments", "jax"}
