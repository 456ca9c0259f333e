"""Run cases under the address and undefined-behaviour sanitizers: `python -m differential.sanitized FIRST COUNT ISA FAMILY...` from the tests folder,
with libasan preloaded (`command()` says how).

Every tile gets memory of its own, exactly as large as the tile, so that an access next to it is found. Starting Python under a sanitizer takes
longer than all else, so each family is run in a fork of one process, and says "FAMILY: done" if it came to its end.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from differential import families
from differential.harness import ISAS, Built, Lowered

from tileworkbench.base.dtypes import DType

FLAGS = ("-O1", "-g1", "-fsanitize=address,undefined", "-fno-omit-frame-pointer")  # less than in use: so that no access is optimised away
_TILE = re.compile(r"\(scratch \+ (\d+)\); /\* \w+ \(([\d, ]*)\) (\w+) \*/")
_AREA = """\
extern int posix_memalign(void **, __SIZE_TYPE__, __SIZE_TYPE__);
static void *twb_exact(__SIZE_TYPE__ n) { void *p = 0; return posix_memalign(&p, 64, n) ? (void *)0 : p; }
"""


def command(families: Sequence[str], first: int, count: int, isa: str = "") -> tuple[list[str], dict[str, str]]:
    """What to run, and its environment."""
    ask = [["gcc", f"-print-file-name={name}"] for name in ("libasan.so", "libubsan.so")]
    libraries = [subprocess.run(line, capture_output=True, text=True).stdout.strip() for line in ask]
    options = {"PYTHONMALLOC": "malloc", "ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=0"}
    env = {**os.environ, "LD_PRELOAD": " ".join(libraries), **options}
    env["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), str(Path(__file__).parents[2])])
    return [sys.executable, "-m", "differential.sanitized", str(first), str(count), isa, *families], env


def apart(text: str) -> str:
    """The C text with a block of memory for every tile."""

    def exact(found: re.Match[str]) -> str:
        count = int(np.prod([int(n) for n in found[2].split(",") if n.strip()], dtype=int))
        return f"twb_exact({max(1, (count * DType(found[3]).bits + 7) // 8)}); /* {found[2]} */"

    return _AREA + _TILE.sub(exact, text)


def main() -> None:
    first, count, isa = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    del os.environ["LD_PRELOAD"]  # the C compiler needs no sanitizer
    for family in sys.argv[4:]:
        child = os.fork()
        if not child:
            run(family, first, count, isa)
            print(f"{family}: done", flush=True)
            os._exit(0)
        os.waitpid(child, 0)


def run(family: str, first: int, count: int, isa: str) -> None:
    for low in range(first, first + count, 20):
        cases = [families.make(family, seed) for seed in range(low, min(low + 20, first + count))]
        lowered = Lowered([c for c in cases if not _padded(c)], refusable=True)
        built = Built(lowered, ISAS[isa] if isa else None, FLAGS, apart)
        for threads in (1, 2):
            built.run(threads, tight=True)


def _padded(case) -> bool:
    """Tiles whose strides leave gaps are larger than their comment says."""
    return any(b.strides is not None for s in case.body for b in getattr(s, "allocs", ()))


if __name__ == "__main__":
    main()
