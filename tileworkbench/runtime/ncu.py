"""Nsight Compute's command line: where it is, running it on a command, and reading the counters that it prints.

A run is started with `--cache-control none`: whoever is profiled empties the caches itself. `--replay-mode application` starts the command once for
each pass that the counters need, so every pass sees the same caches; clocks are left alone.
"""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

WHERE = "TILEWORKBENCH_NCU"
PLACES = ("/usr/local/cuda/bin/ncu", "/usr/local/cuda-*/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu", "/usr/local/NVIDIA-Nsight-Compute*/ncu")
# name -> metric of Nsight Compute 2025 for compute capability 7.0 to 9.0; those that a GPU does not know are left out
METRICS = {
    "DRAM read": "dram__bytes_read.sum",
    "DRAM written": "dram__bytes_write.sum",
    "L2 sectors read": "lts__t_sectors_srcunit_tex_op_read.sum",
    "L2 sectors written": "lts__t_sectors_srcunit_tex_op_write.sum",
    "L2 all": "lts__t_bytes.sum",
    "shared wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "shared load wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared store wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "bank conflicts": "l1tex__data_bank_conflicts_pipe_lsu.sum",
    "instructions": "smsp__inst_executed.sum",
    "cycles": "sm__cycles_elapsed.max",
    "nanoseconds": "gpu__time_duration.sum",
}
SECTOR = 32


@dataclass(frozen=True, slots=True)
class Launched:
    """What was counted of one kernel: `values` by the names of `METRICS`, sectors as bytes."""

    kernel: str
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Profiled:
    """All kernels that were watched, in order; `why` is one line on what went wrong, or ""."""

    launches: tuple[Launched, ...] = ()
    why: str = ""


def find_ncu() -> str | None:
    """The program: $TILEWORKBENCH_NCU, else `ncu` on the PATH, else in the usual places of the CUDA toolkit, the newest first."""
    asked = os.environ.get(WHERE, "")
    if asked:
        return shutil.which(asked)
    found = shutil.which("ncu")
    if found:
        return found
    for pattern in PLACES:
        root = Path("/")
        known = sorted((p for p in root.glob(pattern.lstrip("/")) if os.access(p, os.X_OK)), reverse=True)
        if known:
            return str(known[0])
    return None


def profile(program: str, command: Sequence[str], *, timeout_s: float, environment: Mapping[str, str] | None = None) -> Profiled:
    """Run `command` under `ncu`, which watches what runs between cuProfilerStart and cuProfilerStop."""
    metrics = list(METRICS.values())
    for _ in range(2):
        said, rows = _once(program, command, metrics, timeout_s, environment)
        errors = [line for line in said.splitlines() if "==ERROR==" in line]
        unknown = [m for m in metrics if any(m in line for line in errors)]
        if rows or not unknown or len(unknown) == len(metrics):
            break
        metrics = [m for m in metrics if m not in unknown]
    return Profiled(tuple(rows)) if rows else Profiled(why=why_not(said))


def _once(
    program: str, command: Sequence[str], metrics: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None
) -> tuple[str, list[Launched]]:
    with tempfile.TemporaryDirectory(prefix="tileworkbench-ncu-") as folder:
        log = Path(folder) / "log"
        options = [
            "--csv", "--page", "raw", "--print-units", "base", "--log-file", str(log), "--clock-control", "none", "--cache-control", "none",
            "--replay-mode", "application", "--profile-from-start", "off", "--metrics", ",".join(metrics),
        ]  # fmt: skip
        try:
            ran = subprocess.run(
                [program, *options, *command], capture_output=True, text=True, timeout=timeout_s, env=dict(environment) if environment else None
            )
        except subprocess.TimeoutExpired:
            return f"==ERROR== ncu took longer than {timeout_s:.0f} s", []
        except OSError as error:
            return f"==ERROR== {program} does not start: {error.strerror}", []
        written = log.read_text(errors="replace") if log.exists() else ""
        return "\n".join((written, ran.stdout, ran.stderr)), list(read_csv(written))


def read_csv(text: str) -> Iterator[Launched]:
    """The launches of ncu's output, in either of its forms: a column for each metric (`--page raw`), or a line for each.

    >>> made = '"ID","Kernel Name","dram__bytes_read.sum"\\n"","","byte"\\n"0","gemm","1,024"'
    >>> list(read_csv(made))
    [Launched(kernel='gemm', values={'DRAM read': 1024.0})]
    """
    rows = list(csv.DictReader(line for line in text.splitlines() if line.startswith('"')))
    names = {metric: name for name, metric in METRICS.items()}
    found: dict[str, Launched] = {}
    for row in rows:
        if not row.get("ID"):  # the line of units
            continue
        pairs = [(row["Metric Name"], row.get("Metric Value"))] if "Metric Name" in row else list(row.items())
        values = {names[k]: number * (SECTOR if "sectors" in k else 1) for k, v in pairs if k in names and (number := _number(v)) is not None}
        known = found.get(row["ID"])
        found[row["ID"]] = Launched(row.get("Kernel Name", ""), {**(known.values if known else {}), **values})
    yield from found.values()


def _number(text: str | None) -> float | None:
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None


def why_absent() -> str:
    """Why there is no ncu, and what to do, in one line."""
    asked = os.environ.get(WHERE, "")
    if asked:
        return f"no counters: {WHERE} names {asked}, which is no program"
    return f"no counters: ncu (Nsight Compute) was not found; it comes with the CUDA toolkit, and {WHERE} can say where it is"


def why_not(said: str) -> str:
    """Why nothing was counted, in one line, from what ncu said."""
    if "ERR_NVGPUCTRPERM" in said:
        return (
            "no counters: this user may not read the GPU's (ERR_NVGPUCTRPERM); run as root, give the container CAP_SYS_ADMIN, "
            "or load the driver with NVreg_RestrictProfilingToAdminUsers=0"
        )
    if "LibraryNotLoaded" in said or "Failed to initialize the profiler" in said:
        return "no counters: ncu cannot load the driver's profiler; a sandbox (gVisor) or a virtual machine hides it"
    if "ERR_NVGPUCTR" in said or "not supported on" in said:
        return "no counters: this GPU, or the virtual machine that it is lent to, does not let ncu count"
    error = next((line.partition("==ERROR==")[2].strip() for line in said.splitlines() if "==ERROR==" in line), "")
    return f"no counters: ncu said: {error}" if error else "no counters: ncu ran and saw no launch"
