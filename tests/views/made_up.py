"""Made-up reports: views show values, so their tests need no kernel."""

from __future__ import annotations

from tileworkbench.base.machine import REFERENCE_CPU, Machine
from tileworkbench.base.span import Span
from tileworkbench.model.counts import Counts, Moved
from tileworkbench.model.report import Report
from tileworkbench.model.traffic import Flow, Traffic
from tileworkbench.model.values import Measured


def span(line: int, text: str = "T.copy(A[<i>], A_s)  # a & b") -> Span:
    return Span("kernel.py", line, 0, line, len(text), text=text)


def report(
    flops: int = 2_000_000_000, asked: int = 400_000_000, l2: float = 1e8, l3: float = 5e7, dram: float = 1.2e7, *, seconds: tuple[float, ...] = (),
    machine: Machine = REFERENCE_CPU, threads: int = 1, fits: bool = False, dtype: str = "float32",
) -> Report:  # fmt: skip
    """A report with these totals; half of all bytes are A's, on line 3, half are C's, on line 6."""
    asked_by = tuple(Moved(name, "global", asked // 4, asked // 4, span(line)) for name, line in (("A", 3), ("C", 6)))
    compulsory = (Moved("A", "global", int(dram / 2), 0), Moved("C", "global", 0, int(dram / 2)))
    counts = Counts({dtype: flops} if flops else {}, {"exp": 1000}, asked_by, compulsory, {("kernel.py", 3): flops})
    sizes = {"L2": l2, "L3": l3, "DRAM": dram}
    flows = [Flow(level, name, n / 4, n / 4, 0.0, span(line)) for level, n in sizes.items() for name, line in (("A", 3), ("C", 6)) if n]
    traffic = Traffic(tuple(flows), threads, int(dram), 1 << 40 if fits else 0, 1.0)
    return Report("made_up", machine, threads, {"m": 1024}, counts, traffic, Measured.of(seconds) if seconds else None, None, {"block_m": 64})
