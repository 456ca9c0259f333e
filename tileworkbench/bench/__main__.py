"""`python -m tileworkbench.bench latency [--json FILE]`: run one benchmark, print its table, and keep its numbers."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from . import latency

BENCHES = {"latency": latency.run}


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark that the command line names; 0 if every figure is within its limit."""
    parser = argparse.ArgumentParser(prog="python -m tileworkbench.bench", description="Measure this package on this machine.")
    parser.add_argument("name", choices=sorted(BENCHES), help="what to measure")
    parser.add_argument("--json", metavar="FILE", help="write the numbers there")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each measurement; the median counts")
    asked = parser.parse_args(arguments)
    found = BENCHES[asked.name](asked.repeat)
    print(found.table())
    if asked.json:
        Path(asked.json).write_text(json.dumps(found.as_json(), indent=1) + "\n")
    return 0 if found.is_within else 1


if __name__ == "__main__":
    sys.exit(main())
