"""`python -m tileworkbench.bench NAME [--json FILE]`: run one benchmark, print its table, and keep its numbers."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from ..base.errors import UnsupportedError
from .cpu.compare import compare


class Findings(Protocol):
    """What a benchmark gives."""

    @property
    def is_within(self) -> bool:
        """Whether every figure keeps its limit."""

    def table(self) -> str:
        """The figures for people."""

    def as_json(self) -> dict[str, Any]:
        """The figures for programs."""


def _later(module: str) -> Callable[..., Findings]:
    """`run` of a module that is imported when it is asked for: a machine with a GPU need not have what a notebook needs."""

    def run(*args: Any) -> Findings:
        found: Findings = import_module(f"tileworkbench.bench.{module}").run(*args)
        return found

    return run


BENCHES: dict[str, Callable[[int], Findings]] = {name: _later(name) for name in ("interaction", "latency", "predictions")}
BENCHES["model"] = _later("gpu.model")
ON_A_GPU = {"gpu": _later("gpu.table"), "schedules": _later("gpu.schedules")}
FOR_A_GPU = ("gpu", "cold")  # what they compile needs no GPU
LENIENT = ("interaction",)  # they fail the command with --strict only: their figures hang on how busy the machine is


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark that the command line names; 0 if every figure is within its limit."""
    parser = argparse.ArgumentParser(prog="python -m tileworkbench.bench", description="Measure this package on this machine.")
    parser.add_argument("name", choices=sorted({"cpu", *BENCHES, *ON_A_GPU, *FOR_A_GPU}), help="what to measure")
    parser.add_argument("--json", metavar="FILE", help="write the numbers there")
    parser.add_argument("--repeat", type=_count, default=5, help="runs of each measurement; the median counts")
    parser.add_argument("--strict", action="store_true", help="fail where a figure of `interaction` is over its limit, too")
    parser.add_argument("--only", action="append", default=[], metavar="GROUP", help="a group of `cpu`, `gpu`, `schedules`, `cold`; repeatable")
    parser.add_argument("--threads", type=_numbers, default=(1, 2), metavar="1,2", help="numbers of threads that `cpu` compares")
    parser.add_argument("--compare", nargs=2, metavar="FILE", help="run nothing: say which rows of `cpu` hold in two files of separate runs")
    parser.add_argument("--compile-only", metavar="ARCH", help="of `gpu`, `cold`: compile for sm_90a, say, without a GPU")
    asked = parser.parse_args(arguments)
    found: Findings
    if asked.compile_only and asked.name not in FOR_A_GPU:
        parser.error(f"--compile-only is an option of {' and '.join(FOR_A_GPU)}, not of {asked.name}")
    if asked.compare:
        found = compare(*asked.compare)
    elif asked.name in (*ON_A_GPU, *FOR_A_GPU):
        try:
            found = _for_a_gpu(asked)
        except (UnsupportedError, ValueError) as error:
            parser.error(str(error))
    elif asked.name == "cpu":
        found = _later("cpu.table")(asked.only, asked.threads, 3 * asked.repeat)
    else:
        found = BENCHES[asked.name](asked.repeat)
    print(found.table())
    if asked.json:
        Path(asked.json).write_text(json.dumps(found.as_json(), indent=1) + "\n")
    return 0 if found.is_within or (asked.name in LENIENT and not asked.strict) else 1


def _for_a_gpu(asked: argparse.Namespace) -> Findings:
    """What is timed on a GPU, or compiled for one."""
    if asked.name == "cold":
        return _later("gpu.cold")(asked.only, asked.compile_only, asked.repeat)
    return _later("gpu.compiled")(asked.only, asked.compile_only) if asked.compile_only else ON_A_GPU[asked.name](asked.only, asked.json)


def _count(text: str) -> int:
    if (count := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} runs measure nothing; at least 1 is needed")
    return count


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
