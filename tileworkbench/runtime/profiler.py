"""TileLang's profiler: time a kernel, and compare it with a reference program, on made-up or given inputs."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..base.errors import ExpectationError
from .arrays import describe, library_of
from .cuda_arrays import fetch
from .supply import KernelParam, TensorSupplyType, get_tensor_supply
from .timing import Timing, do_bench, measure

if TYPE_CHECKING:
    from .kernel import JITKernel

__all__ = ["Profiler", "Timing", "assert_close", "do_bench", "measure", "plain"]

PIECE = 1 << 18  # elements that are compared at a time: their float64 stays in a cache, and a launch of a GPU is worth its while


class Profiler:
    """Times one kernel and checks it against a reference. `func` is what is timed: the kernel."""

    def __init__(self, kernel: JITKernel, supply_type: TensorSupplyType = TensorSupplyType.Auto) -> None:
        self.kernel = kernel
        self.func = kernel
        self.supply = get_tensor_supply(supply_type)

    @property
    def params(self) -> list[KernelParam]:
        return self.kernel.params

    def inputs(self) -> list[Any]:
        """Made-up values for every input. Raises ArgumentError where only the caller can know a size."""
        made = [self.supply(p) for p in self.kernel.params if not p.is_output]
        send: Callable[[Any], Any] | None = getattr(self.kernel.executable, "send", None)
        return made if send is None else [send(value) for value in made]

    _get_inputs = inputs

    def run_once(self, func: Callable[..., Any] | None = None) -> Any:
        """Call the kernel (or `func`) once on made-up inputs."""
        return (func or self.kernel)(*self.inputs())

    def do_bench(
        self,
        func: Callable[..., Any] | None = None,
        warmup: float = 25,
        rep: float = 100,
        n_warmup: int = 0,
        n_repeat: int = 0,
        input_tensors: Sequence[Any] | None = None,
        **options: Any,
    ) -> float | list[float]:
        """Milliseconds that the kernel (or `func`, on the same inputs) takes. `options` are those of `tileworkbench.profiler.do_bench`."""
        inputs = list(input_tensors) if input_tensors is not None else self.inputs()
        bench_target = functools.partial(func or self.kernel, *inputs)
        return do_bench(bench_target, warmup, rep, n_warmup, n_repeat, clock=self.kernel.clock_for(inputs), **options)

    def assert_allclose(
        self,
        reference_program: Callable[..., Any],
        input_tensors: Sequence[Any] | None = None,
        atol: float = 1e-2,
        rtol: float = 1e-2,
        max_mismatched_ratio: float = 0.01,
    ) -> None:
        """Compare the kernel's outputs with those of `reference_program` on the same inputs.

        A share of `max_mismatched_ratio` of the elements may lie outside `atol + rtol * |reference|`. Raises ExpectationError with the place of
        the largest difference.
        """
        inputs = list(input_tensors) if input_tensors is not None else self.inputs()
        wanted = _as_list(reference_program(*inputs))
        got = _as_list(self.kernel(*inputs))
        if len(got) != len(wanted):
            raise ExpectationError(f"kernel {self.kernel.name} returns {len(got)} outputs, the reference {len(wanted)}")
        for i, (g, w) in enumerate(zip(got, wanted, strict=True)):
            assert_close(g, w, atol=atol, rtol=rtol, max_mismatched_ratio=max_mismatched_ratio, name=f"output {i} of {self.kernel.name}")

    def assert_consistent(self, repeat: int = 10) -> None:
        """Run the kernel `repeat` times on the same inputs; raises ExpectationError if the results differ in any bit."""
        inputs = self.inputs()
        first = [plain(x).tobytes() for x in _as_list(self.kernel(*inputs))]
        for _ in range(repeat - 1):
            if [plain(x).tobytes() for x in _as_list(self.kernel(*inputs))] != first:
                raise ExpectationError(f"kernel {self.kernel.name} gives different results on the same inputs")


def assert_close(
    got: Any, wanted: Any, *, atol: float = 1e-2, rtol: float = 1e-2, max_mismatched_ratio: float = 0.0, name: str = "the result"
) -> None:
    """Compare two arrays of any library in float64; NaN equals NaN. Raises ExpectationError naming the worst element."""
    on_one = library_of(got) == library_of(wanted) == "torch" and got.device == wanted.device
    g, w = (got, wanted) if on_one else (plain(got), plain(wanted))
    if tuple(g.shape) != tuple(w.shape):
        raise ExpectationError(f"{name} has shape {tuple(g.shape)}, the reference {tuple(w.shape)}")
    size, g1, w1 = math.prod(g.shape), g.reshape(-1), w.reshape(-1)
    pieces = [_compare(g1[at : at + PIECE], w1[at : at + PIECE], atol, rtol, at) for at in range(0, size, PIECE)]
    count = sum(p.off for p in pieces)
    if count > max_mismatched_ratio * size:
        worst = max(pieces, key=lambda p: p.error)
        place = tuple(int(i) for i in np.unravel_index(worst.place, tuple(g.shape)))
        raise ExpectationError(
            f"{name} differs in {count} of {size} elements, most at {place}: got {worst.got:.6g}, expected {worst.wanted:.6g} "
            f"(allowed {atol:g} + {rtol:g} * |expected|)"
        )


class _Compared(NamedTuple):
    """Of some elements: how many are off, and the worst of those with its place among all."""

    off: int
    error: float
    place: int
    got: float
    wanted: float


def _compare(got: Any, wanted: Any, atol: float, rtol: float, begin: int) -> _Compared:
    """Compare so many elements as a cache holds in float64; PyTorch's where they lie, on a GPU too."""
    is_torch = library_of(got) == "torch"
    xp: Any = sys.modules["torch"] if is_torch else np
    with np.errstate(invalid="ignore"):  # a signalling NaN is one, too
        a, b = (x.double() if is_torch else x.astype(np.float64) for x in (got, wanted))
        error = abs(a - b)
        error[(a == b) | (xp.isnan(a) & xp.isnan(b))] = 0.0
        error[xp.isnan(error)] = math.inf
        bad = error > atol + rtol * xp.where(xp.isfinite(b), abs(b), xp.zeros_like(b))
    count = int(bad.sum())
    if not count:
        return _Compared(0, -1.0, 0, 0.0, 0.0)
    error[~bad] = -1.0
    at = int(error.argmax())
    return _Compared(count, float(error[at]), begin + at, float(a[at]), float(b[at]))


def _as_list(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]


def plain(value: Any) -> np.ndarray[Any, Any]:
    """An array of any library as NumPy's, a copy of one that lies in a GPU's memory."""
    library = library_of(value)
    if library == "torch" and value.device.type == "cuda" or library == "cupy":
        return fetch(value)
    if library == "torch" and value.device.type != "cpu":
        value = value.to(sys.modules["torch"].device("cpu"))
    return describe(value).array if library in ("numpy", "torch") else np.asarray(value)
