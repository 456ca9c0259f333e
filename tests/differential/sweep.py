"""Run many random cases: `python -m differential.sweep FAMILY FIRST COUNT` from the tests folder."""

from __future__ import annotations

import sys
import time

from differential import families
from differential.harness import acceptable, compare, join

from tileworkbench.ir.printer import print_kernel


def main() -> None:
    family, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    isas = sys.argv[4].split(",") if len(sys.argv) > 4 else [""]
    verbose = "-v" in sys.argv
    begin = time.time()
    for low in range(first, first + count, 20):
        cases = [families.make(family, seed) for seed in range(low, min(low + 20, first + count))]
        ok = acceptable(cases)
        try:
            faults = compare(ok, isas)
        except Exception:
            faults = []
            for case in ok:
                try:
                    faults += compare([case], isas)
                except Exception as error:
                    print(f"{case.name}: {type(error).__name__}: {str(error)[:600]}", flush=True)
        print(f"{family} {low}: {len(ok)}/{len(cases)} cases, {len(faults)} faults, {time.time() - begin:.1f} s", flush=True)
        for f in faults:
            print(f"  {f.case.name}: {f.text}")
            if verbose:
                print(print_kernel(join([f.case])))


if __name__ == "__main__":
    main()
