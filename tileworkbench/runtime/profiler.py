"""TileLang's profiler: time a kernel, and compare it with a reference program, on made-up or given inputs."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.errors import ExpectationError
from .arrays import describe, library_of
from .cuda_arrays import fetch
from .supply import KernelParam, TensorSupplyType, get_tensor_supply
from .timing import Timing, do_bench, measure

if TYPE_CHECKING:
    from .kernel import JITKernel

__all__ = ["Profiler", "Timing", "assert_close", "do_bench", "measure"]


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
        first = [_plain(x).tobytes() for x in _as_list(self.kernel(*inputs))]
        for _ in range(repeat - 1):
            if [_plain(x).tobytes() for x in _as_list(self.kernel(*inputs))] != first:
                raise ExpectationError(f"kernel {self.kernel.name} gives different results on the same inputs")


def assert_close(
    got: Any, wanted: Any, *, atol: float = 1e-2, rtol: float = 1e-2, max_mismatched_ratio: float = 0.0, name: str = "the result"
) -> None:
    """Compare two arrays of any library in float64; NaN equals NaN. Raises ExpectationError naming the worst element."""
    g, w = _plain(got), _plain(wanted)
    if g.shape != w.shape:
        raise ExpectationError(f"{name} has shape {g.shape}, the reference {w.shape}")
    with np.errstate(invalid="ignore"):  # a signalling NaN is one, too
        a, b = g.astype(np.float64), w.astype(np.float64)
        error = np.abs(a - b)
        error[(a == b) | (np.isnan(a) & np.isnan(b))] = 0.0
        error[np.isnan(error)] = np.inf
        bad = error > atol + rtol * np.where(np.isfinite(b), np.abs(b), 0.0)
    count = int(bad.sum())
    if count > max_mismatched_ratio * bad.size:
        place = tuple(int(i) for i in np.unravel_index(int(np.argmax(np.where(bad, error, -1.0))), error.shape))
        raise ExpectationError(
            f"{name} differs in {count} of {bad.size} elements, most at {place}: got {a[place]:.6g}, expected {b[place]:.6g} "
            f"(allowed {atol:g} + {rtol:g} * |expected|)"
        )


def _as_list(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]


def _plain(value: Any) -> np.ndarray[Any, Any]:
    library = library_of(value)
    if library == "torch" and value.device.type == "cuda" or library == "cupy":
        return fetch(value)
    if library == "torch" and value.device.type != "cpu":
        value = value.to(sys.modules["torch"].device("cpu"))
    return describe(value).array if library in ("numpy", "torch") else np.asarray(value)
