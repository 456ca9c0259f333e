"""The `tileworkbench` command: demo, doctor, cache, lab, bench."""

from __future__ import annotations

import argparse
import importlib.util
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from .base.cpu import host_isa
from .base.errors import TileError
from .bench.__main__ import main as bench_main
from .demo import run_demo
from .runtime import cache, toolchain
from .runtime.fork import available_cores
from .runtime.libcuda import find_driver, why_no_driver
from .runtime.measure import measure
from .runtime.nvrtc import INSTALL, find_nvrtc, why_no_nvrtc
from .runtime.targets import get_target, target_names

PACKAGES = (
    "numpy", "ml_dtypes", "ipython", "ipywidgets", "anywidget", "jupyterlab", "matplotlib", "pygments", "torch", "ziglang",
    "cupy-cuda13x", "cupy-cuda12x", "cupy", "nvidia-cuda-nvdisasm",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words and words[0] in PASSED_ON and words[1:2] not in (["-h"], ["--help"]):
            return PASSED_ON[words[0]](words[1:])
        asked = _parser().parse_args(words)
        status: int = asked.run(asked)
        return status
    except TileError as error:
        print(error, file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tileworkbench", description="Tile kernels that say why they are as fast as they are.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="compile, run and check the kernel library on this machine, and write a report")
    demo.add_argument("--out", default="tileworkbench-demo.html", metavar="FILE", help="the report (default: %(default)s)")
    demo.add_argument("--threads", type=_positive, metavar="N", help="threads of each kernel (default: all cores)")
    demo.add_argument("--quick", action="store_true", help="smaller sizes")
    demo.add_argument(
        "--target", default="", metavar="NAME", help="c, cuda, interpret, emulate:sm_80, ... (default: c, or interpret without a compiler)"
    )
    demo.set_defaults(run=lambda a: run_demo(a.out, a.threads, quick=a.quick, target=a.target))

    doctor = commands.add_parser("doctor", help="what this machine has, and what is missing")
    doctor.add_argument("--measure", action="store_true", help="measure peaks and bandwidths again (keep the machine idle)")
    doctor.set_defaults(run=lambda a: _doctor(again=a.measure))

    store = commands.add_parser("cache", help="where compiled kernels are kept")
    store.add_argument("--clear", action="store_true", help="delete them")
    store.set_defaults(run=lambda a: _cache(clear=a.clear))

    # what follows these two is not ours to read: `main` passes it on, and they stand here to be listed
    commands.add_parser("lab", help="open the lessons in JupyterLab", usage="tileworkbench lab [options of jupyter lab]")
    commands.add_parser(
        "bench", help="benchmarks", usage="tileworkbench bench latency|interaction|predictions|cpu|gpu|model|schedules [--json FILE] [--repeat N]"
    )
    return parser


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a number of threads, 1 or more, got {text!r}")
    return value


def _doctor(*, again: bool) -> int:
    """Print what is here; 1 if no target can compile."""
    isa = host_isa()
    print(f"tileworkbench {_version('tileworkbench')}, Python {platform.python_version()}, {platform.system()} {platform.machine()}")
    print(f"cores    {available_cores()} usable; vectors of {isa.vector_bytes} bytes ({isa.name})")
    compilers = toolchain.all_compilers()
    for compiler in compilers:
        serial = f" (one thread only: {compiler.why_serial})" if compiler.why_serial else ""
        print(f"compiler {compiler.name}: {' '.join(compiler.command)}{serial}")
    if not compilers:
        print(f"compiler none; {toolchain.INSTALL}")
    for line in _gpu_lines():
        print(line)
    for name in target_names():
        why = get_target(name).usable()
        print(f"target   {name}: {why or 'ready'}")
    info = cache.info()
    print(f"cache    {info.folder}: {info.entries} kernels, {info.size_bytes / 1e6:.1f} MB")
    print("packages " + ", ".join(f"{name} {found}" for name in PACKAGES if (found := _version(name))))
    print()
    print(measure(force=again))
    if again and find_driver() is not None:
        print()
        print(measure(force=True, device="cuda"))
    return 0 if compilers else 1


def _gpu_lines() -> list[str]:
    """What there is for GPUs: the compiler, the driver, the GPUs themselves."""
    nvrtc, driver = find_nvrtc(), find_driver()
    if nvrtc is None:
        lines = [f"nvrtc    none ({why_no_nvrtc()}); {INSTALL}"]
    else:
        lines = [f"nvrtc    {nvrtc.name}: {nvrtc.path}; {', '.join(nvrtc.architectures())}"]
    if driver is None:
        return [*lines, f"gpu      none: {why_no_driver()}"]
    for number in range(driver.count):
        device = driver.device(number)
        shared = f"{device.shared_per_block // 1024} KiB of shared memory a block"
        lines.append(
            f"gpu {number}    {device.name}, {device.arch}, {device.sms} SMs, {shared}; driver of CUDA {driver.version[0]}.{driver.version[1]}"
        )
    return lines


def _cache(*, clear: bool) -> int:
    info = cache.info()
    if clear:
        print(f"deleted {cache.clear()} kernels, {info.size_bytes / 1e6:.1f} MB, from {info.folder}")
    else:
        print(f"{info.folder}: {info.entries} kernels, {info.size_bytes / 1e6:.1f} MB; `tileworkbench cache --clear` deletes them")
    return 0


def _lab(rest: Sequence[str]) -> int:
    """Start JupyterLab on the lessons."""
    if importlib.util.find_spec("jupyterlab") is None:
        print("JupyterLab is not installed: pip install 'tileworkbench[lab]'", file=sys.stderr)
        return 1
    return subprocess.call([sys.executable, "-m", "jupyterlab", f"--notebook-dir={_lessons()}", *rest])


def _lessons() -> Path:
    """The folder of the lessons: beside the package in a source tree, inside it when installed; else the current folder."""
    here = Path(__file__).resolve().parent
    return next((p for p in (here / "lessons", here.parent / "notebooks") if p.is_dir()), Path.cwd())


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


PASSED_ON: dict[str, Callable[[list[str]], int]] = {"lab": _lab, "bench": bench_main}


if __name__ == "__main__":
    sys.exit(main())
