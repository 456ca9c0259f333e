"""How long a reader waits for an answer of the notebook: every budget with its measured value.

In Python: a move's prediction and its measured run, a layout's picture, a cell's first paint, the size and the still picture of every view. In
chromium with a real JupyterLab, where both are installed: a slider's step until the ghost has moved, until Python has answered, until the measured
marker is there, and the same layout on a canvas.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from ..layout import swizzled
from ..notebook.bench_live import Face
from ..notebook.bench_views import views_of
from ..notebook.workbench import Workbench, workbench
from ..runtime.fork import available_cores
from ..runtime.measure import cpu_name, measure
from ..runtime.targets import get_target
from ..views.layout import layout_view
from ..views.view import View
from . import lab

CELLS = (256, 128)
GHOST_MS, TRUTH_MS, LAYOUT_MS, PAINT_MS, SIZE_KB = 120.0, 500.0, 50.0, 300.0, 200.0
PATIENCE_S = 60.0

HEAD = "import numpy as np\nimport tileworkbench\nimport tileworkbench.language as T\nA = np.ones((256, 256), np.float32)\nB = A.copy()\n"
KERNEL = """\
@tileworkbench.jit
def matmul(A, B, block_M=64, block_N=64):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float32)
    B: T.Tensor((K, N), T.float32)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M)) as (bx, by):
        a = T.alloc_shared((block_M, 64), T.float32)
        b = T.alloc_shared((64, block_N), T.float32)
        c = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
            T.copy(A[by * block_M, k * 64], a)
            T.copy(B[k * 64, bx * block_N], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * block_M, bx * block_N])
    return C
C = matmul(A, B)
"""
STEPS: dict[str, Any] = {"block_M": [16, 32, 64, 128, 256], "block_N": [16, 32, 64, 128, 256]}


@dataclass(frozen=True, slots=True)
class Budget:
    """One number with its limit, in `unit`; the median of `runs`. Without runs it was not measured, and `note` says why."""

    name: str
    runs: tuple[float, ...]
    limit: float | None = None
    unit: str = "ms"
    note: str = ""

    @property
    def value(self) -> float | None:
        return statistics.median(self.runs) if self.runs else None

    @property
    def is_within(self) -> bool:
        return self.value is None or self.limit is None or self.value <= self.limit


@dataclass(slots=True)
class Interaction:
    """All budgets of one run."""

    budgets: list[Budget] = field(default_factory=list)
    machine: str = ""

    @property
    def is_within(self) -> bool:
        return all(b.is_within for b in self.budgets)

    def table(self) -> str:
        """The budgets as text, one a line."""
        lines = [self.machine, f"{'':<38}{'measured':>12}{'limit':>10}"]
        for b in self.budgets:
            value = f"{b.value:.1f} {b.unit}" if b.value is not None else "not measured"
            limit = f"{b.limit:g} {b.unit}" if b.limit is not None else ""
            lines.append(f"{b.name:<38}{value:>12}{limit:>10}  {'' if b.is_within else 'OVER  '}{b.note}".rstrip())
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The budgets for a file."""
        rows = [
            {"name": b.name, "value": b.value, "unit": b.unit, "runs": list(b.runs), "limit": b.limit, "within": b.is_within, "note": b.note}
            for b in self.budgets
        ]
        return {"machine": self.machine, "python": platform.python_version(), "budgets": rows}


class _Browser:
    """Stands for a browser: remembers when it was told what."""

    def __init__(self) -> None:
        self.told: list[tuple[float, Mapping[str, Any]]] = []

    def send(self, message: Mapping[str, Any]) -> None:
        json.dumps(message)
        self.told.append((time.perf_counter(), message))

    def when(self, seq: int, part: str) -> float:
        """When the answer to request `seq` first held `part` of the state. Raises StopIteration if it never did."""
        return next(at for at, m in self.told if m.get("state", {}).get("seq") == seq and m["state"].get(part))


def run(repeat: int = 5) -> Interaction:
    """Measure every budget; about half a minute, a minute with a browser."""
    busy = f"load {os.getloadavg()[0]:.1f} on {available_cores()} cores"  # what else ran: every time below hangs on it
    found = Interaction(machine=f"{cpu_name()}, Python {platform.python_version()}, {busy}")
    measure()  # the machine's own numbers are measured once, and are no part of any budget
    with _own_cache():
        space: dict[str, Any] = {}
        _define(space)
        found.budgets += [*_moves(space, repeat), *_layout(repeat), *_first_paint(repeat), *_views(space)]
        found.budgets += _in_a_browser(repeat)
    return found


@contextlib.contextmanager
def _own_cache() -> Iterator[None]:
    """A cache that holds nothing yet, so that a compile is a compile."""
    before = os.environ.get("TILEWORKBENCH_CACHE_DIR")
    with tempfile.TemporaryDirectory(prefix="twb-bench-") as folder:
        os.environ["TILEWORKBENCH_CACHE_DIR"] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ["TILEWORKBENCH_CACHE_DIR"]
            else:
                os.environ["TILEWORKBENCH_CACHE_DIR"] = before


def _define(space: dict[str, Any]) -> None:
    """Run the kernel's cell in `space`, from a file, since a kernel's source is read."""
    with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
        file.write(HEAD + KERNEL)
    exec(compile(HEAD + KERNEL, file.name, "exec"), space)


def _bench(space: dict[str, Any]) -> Workbench:
    made = workbench(space["matmul"], (space["A"], space["B"]), store=None, **STEPS)
    made.run  # noqa: B018  # the first position is no part of what is measured
    return made


def _moves(space: dict[str, Any], repeat: int) -> list[Budget]:
    """From a slider's step, as Python hears it, to its ghost and to its truth; at positions that were never compiled before."""
    made, browser = _bench(space), _Browser()
    face = Face(made, browser)
    made.engine.worker.wait_idle(PATIENCE_S)
    places = [p for p in made.engine.predictions if p not in made.engine.latest and not made.engine.reason(p)][: max(repeat, 1)]
    ghosts, truths = [], []
    for seq, place in enumerate(places, 1):
        start = time.perf_counter()
        face.heard({"type": "move", "at": list(place), "seq": seq})
        made.engine.wait(PATIENCE_S)
        ghosts.append(1e3 * (browser.when(seq, "ghost") - start))
        if made.engine.latest.get(place) is not None:
            truths.append(1e3 * (browser.when(seq, "truth") - start))
    made.close()
    note = "" if truths else f"target c: {get_target('c').usable() or 'nothing ran'}"
    return [
        Budget("ghost, in the kernel", tuple(ghosts), GHOST_MS),
        Budget("truth, in the kernel: compile and run", tuple(truths), TRUTH_MS, note=note),
    ]


def _timed(work: Callable[[], Any], repeat: int) -> tuple[float, ...]:
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(1e3 * (time.perf_counter() - start))
    return tuple(times)


def _layout(repeat: int) -> list[Budget]:
    """A tile of 256 x 128 cells as a picture in Python."""
    view = layout_view(swizzled(*CELLS, bits=16))
    view.scene()
    return [Budget(f"layout {CELLS[0]}x{CELLS[1]}, in Python", _timed(lambda: view.scene().to_json(), repeat), LAYOUT_MS)]


def _first_paint(repeat: int) -> list[Budget]:
    """A whole `%%tile` cell whose kernel was compiled before, from its start to its panel."""
    is_ours = not InteractiveShell.initialized()
    shell = InteractiveShell.instance()
    with contextlib.redirect_stdout(io.StringIO()):
        shell.run_cell(f"%load_ext tileworkbench\n{HEAD}")
        cell = f"%%tile\n{KERNEL}"
        shell.run_cell(cell)
        times = _timed(lambda: shell.run_cell(cell), repeat)
        shell.run_line_magic("unload_ext", "tileworkbench")
    if is_ours:
        InteractiveShell.clear_instance()
    return [Budget("first paint of a cell's result", times, PAINT_MS, note="compiled before; with its timed runs")]


def _views(space: dict[str, Any]) -> list[Budget]:
    """The size of each view's live form and the time of its still picture."""
    made = _bench(space)
    made.engine.worker.wait_idle(PATIENCE_S)
    report = made.truth or made.ghost
    views: dict[str, View] = {"workbench": made, "layout": layout_view(swizzled(*CELLS, bits=16))}
    if report is not None:
        views |= {name: make() for name, make in views_of(made.engine, report).items()}
    budgets = []
    for name, view in views.items():
        size = len(json.dumps(view.live())) / 1e3 + len(view.html()) / 1e3
        budgets.append(Budget(f"size of {name}, live and still", (size,), SIZE_KB, "kB"))
        budgets.append(Budget(f"still picture of {name}", _timed(view.png, 1)))
    made.close()
    return budgets


def _in_a_browser(repeat: int) -> list[Budget]:
    """The same as a reader sees it; a line that says why where there is no browser or no JupyterLab."""
    limits = {"ghost": GHOST_MS, "answer": None, "truth": TRUTH_MS, "layout": LAYOUT_MS}
    names = {
        "ghost": "ghost, in the browser", "answer": "Python's answer, in the browser", "truth": "truth, in the browser",
        "layout": f"layout {CELLS[0]}x{CELLS[1]}, on a canvas",
    }  # fmt: skip
    if why := lab.missing():
        return [Budget(names[key], (), limit, note=why) for key, limit in limits.items()]
    steps = "; ".join(f"{name}={','.join(map(str, values))}" for name, values in STEPS.items())
    live = layout_view(swizzled(*CELLS, bits=16)).live()
    try:
        times = lab.times(HEAD, f'%%tile --tune "{steps}"\n{KERNEL}', live, repeat)
    except Exception as error:  # a browser that does not start is no failure of the budgets
        why = f"{type(error).__name__}: {str(error).splitlines()[0]}" if str(error) else type(error).__name__
        return [Budget(names[key], (), limit, note=why) for key, limit in limits.items()]
    return [Budget(names[key], tuple(times[key]), limit) for key, limit in limits.items()]
