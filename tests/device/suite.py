"""One program a family of device functions: the emulator and a GPU run the same text on the same numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileworkbench.device import from_text, library
from tileworkbench.emulator import RunResult, TensorMap
from tileworkbench.runtime import emulating


@dataclass(frozen=True)
class Case:
    """A kernel named `k`, its arguments, and what arrays must hold afterwards (position -> values). A tolerance of None: to the bit."""

    name: str
    text: str
    args: Callable[[], list[Any]]
    expected: Callable[[list[Any]], dict[int, np.ndarray]]
    arch: str = "sm_80"
    grid: Any = 1
    block: Any = 32
    shared: int = 0
    cluster: int = 1
    rtol: float | None = None
    atol: float = 0.0

    def __str__(self) -> str:
        return self.name


def joined(cases: Sequence[Case]) -> dict[str, tuple[str, str]]:
    """The cases of an architecture as one text, since a compiler takes longer to start than to translate one: case -> (text, its kernel)."""
    texts: dict[str, dict[str, int]] = {}
    for case in cases:
        of_arch = texts.setdefault(case.arch, {})
        of_arch.setdefault(case.text, len(of_arch))
    whole = {arch: "\n".join(re.sub(r"\bk\(", f"k{i}(", text, count=1) for text, i in of_arch.items()) for arch, of_arch in texts.items()}
    return {case.name: (whole[case.arch], f"k{texts[case.arch][case.text]}") for case in cases}


def emulate(case: Case, text: str, kernel: str) -> tuple[list[Any], RunResult]:
    """The arguments after a run in the emulator, and what it left."""
    args = case.args()
    program = emulating.load(text, case.arch)
    return args, program[kernel].run(case.grid, case.block, args, shared_bytes=case.shared, cluster=case.cluster, sanitize=True)


def compare(case: Case, before: list[Any], after: list[Any]) -> None:
    """Fails unless every expected array is there."""
    for position, wanted in case.expected(before).items():
        got = after[position]
        got = got.array if isinstance(got, TensorMap) else got
        if case.rtol is None:
            np.testing.assert_array_equal(got, wanted, err_msg=f"{case.name}: argument {position}")
        else:
            np.testing.assert_allclose(got, wanted, rtol=case.rtol, atol=case.atol, err_msg=f"{case.name}: argument {position}")


def on_gpu(case: Case, cupy: Any, encode: Callable[[Any, TensorMap], Any]) -> list[Any]:
    """The arguments after a run on the GPU, as NumPy arrays."""
    text = (
        case.text.replace('extern "C" __global__ void', f'extern "C" __global__ void __cluster_dims__({case.cluster}, 1, 1)')
        if case.cluster > 1
        else case.text
    )
    source = library(from_text(text), case.arch, "gpu") + text
    number = cupy.cuda.Device().compute_capability  # the text of an older architecture runs on a newer one, its code does not
    module = cupy.RawModule(code=source, options=(f"--gpu-architecture=sm_{number}{'a' if number == '90' else ''}", "-std=c++17"))
    kernel = module.get_function("k")
    if case.shared:
        kernel.max_dynamic_shared_size_bytes = case.shared
    host, device, passed = case.args(), [], []
    for arg in host:
        array = arg.array if isinstance(arg, TensorMap) else arg
        there = cupy.asarray(array.view(np.uint8).reshape(-1)) if isinstance(array, np.ndarray) else np.int32(array)
        device.append(there)
        passed.append(encode(there, arg) if isinstance(arg, TensorMap) else there)
    three = [tuple(v) if isinstance(v, tuple) else (v,) for v in (case.grid, case.block)]
    kernel(three[0], three[1], tuple(passed), shared_mem=case.shared)
    cupy.cuda.Device().synchronize()
    out = []
    for arg, there in zip(host, device, strict=True):
        array = arg.array if isinstance(arg, TensorMap) else arg
        out.append(cupy.asnumpy(there).view(array.dtype).reshape(array.shape) if isinstance(array, np.ndarray) else array)
    return out


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)
