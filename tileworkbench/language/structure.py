"""Words for the structure of a kernel: functions, launches, loops, buffers, dims.

@T.prim_func
def copy(A: T.Tensor((1024,), "float32"), B: T.Tensor((1024,), "float32")):
    with T.Kernel(8, threads=128) as bx:
        for i in T.Parallel(128):
            B[bx * 128 + i] = A[bx * 128 + i]
"""

from __future__ import annotations

from typing import Any

from ._dispatch import alias, word
from .types import RefWord, StridedTensorWord, TensorWord

Tensor = TensorWord("Tensor")
Buffer = TensorWord("Buffer")  # the older name of Tensor
StridedTensor = StridedTensorWord()
SharedBuffer = TensorWord("SharedBuffer", "shared")
FragmentBuffer = TensorWord("FragmentBuffer", "fragment")
LocalBuffer = TensorWord("LocalBuffer", "local")
Ref = RefWord()


# ---------------------------------------------------------------------------------------------- functions
@word
def prim_func(func: Any = None, **attrs: Any) -> Any:
    """Decorator: turn a Python function into a kernel, now. Tensor parameters are annotated with `T.Tensor(shape, dtype)`."""


@word
def macro(func: Any = None) -> Any:
    """Decorator: a helper that is inlined where it is called. Scalars pass by value, `T.Ref` parameters by reference; it may return values."""


@word
def meta_class(cls: Any) -> Any:
    """Decorator: a class of build-time objects whose methods are macros, so they may hold kernel values and emit statements."""


@word
def Kernel(*blocks: Any, threads: Any = None, prelude: Any = None, cluster_dims: Any = None) -> Any:
    """Launch a grid of blocks: `with T.Kernel(gx, gy, threads=128) as (bx, by):`. One to three extents, x first; up to 3-D `threads`.

    `cluster_dims=(2, 1, 1)`, or 2: so many neighbouring blocks run together on a GPU that can do that (sm_90); elsewhere it changes nothing.
    """


@word
def ClusterKernel(*blocks: Any, cluster_dims: Any = None, threads: Any = None, prelude: Any = None) -> Any:
    """`T.Kernel(..., cluster_dims=...)`."""


# ---------------------------------------------------------------------------------------------- loops
@word
def Parallel(*extents: Any, coalesced_width: Any = None, loop_layout: Any = None, prefer_async: Any = None, annotations: Any = None) -> Any:
    """Independent iterations over a box: `for i, j in T.Parallel(M, N):`. The body holds loads, stores and arithmetic only."""


@word
def Pipelined(
    start: Any, stop: Any = None, num_stages: int = 0, order: Any = None, stage: Any = None, sync: Any = None, group: Any = None,
    annotations: Any = None,
) -> Any:  # fmt: skip
    """A sequential loop whose copies may run ahead by `num_stages` buffers. Results equal those of a plain loop."""


@word
def serial(start: Any, stop: Any = None, step: Any = None, *, annotations: Any = None) -> Any:
    """A sequential loop, as `range`. `step` is a non-zero constant."""


@word
def unroll(start: Any, stop: Any = None, step: Any = None, *, explicit: bool = False, unroll_factor: Any = None, annotations: Any = None) -> Any:
    """A sequential loop that the compiler should unroll."""


@word
def vectorized(start: Any, stop: Any = None, *, annotations: Any = None) -> Any:
    """A loop that the compiler should turn into vector instructions."""


@word
def grid(*extents: Any) -> Any:
    """Nested sequential loops: `for i, j in T.grid(M, N):`."""


@word
def Persistent(domain: Any, wave_size: Any, index: Any, group_size: int = 8) -> Any:
    """Tiles of `domain` for block `index` of `wave_size` persistent blocks; yields tile coordinates, `group_size` rows at a time."""


@word
def thread_binding(start: Any, stop: Any = None, thread: str = "threadIdx.x", annotations: Any = None) -> Any:
    """A loop whose iterations are the threads of the block: the variable is the thread index of `thread`."""


# ---------------------------------------------------------------------------------------------- dims and parameters
@word
def dynamic(name: str, dtype: Any = "int32") -> Any:
    """Run-time dims: `m = T.dynamic("m")`, `m, n = T.dynamic("m, n")`. One compiled kernel serves all sizes."""


@word
def const(names: str, dtype: Any = "int32") -> Any:
    """Eager kernels: dims read from the tensor arguments and baked in: `M, N = T.const("M, N")`."""


@word
def empty(*shape: Any, dtype: Any = "float32") -> Any:
    """Declare an output tensor, `T.empty((M, N), dtype)`; the kernel must return it."""


# ---------------------------------------------------------------------------------------------- buffers
@word
def alloc_shared(shape: Any, dtype: Any = "float32", scope: str = "shared.dyn") -> Any:
    """A tile shared by the threads of the block."""


@word
def alloc_fragment(shape: Any, dtype: Any = "float32", scope: str = "local.fragment") -> Any:
    """A tile of the block held in the registers of its threads."""


@word
def alloc_local(shape: Any, dtype: Any = "float32", scope: str = "local") -> Any:
    """A small array of each thread."""


@word
def alloc_var(dtype: Any, *args: Any, scope: str = "local.var", init: Any = None) -> Any:
    """A mutable scalar: `x = T.alloc_var("int32", init=0)`, then `x = x + 1` stores."""


@word
def alloc_global(shape: Any, dtype: Any = "float32", scope: str = "global") -> Any:
    """A workspace in global memory that lives as long as one call of the kernel."""


@word
def alloc_buffer(shape: Any, dtype: Any = "float32", scope: str = "shared") -> Any:
    """Allocate in any scope: "shared", "local.fragment", "local", "global", "local.var"."""


inline = alias("inline", macro)
Serial = alias("Serial", serial)
Unroll = alias("Unroll", unroll)
Vectorized = alias("Vectorized", vectorized)
parallel = alias("parallel", Parallel)
symbolic = alias("symbolic", dynamic)


class _Dyn:
    """`T.dyn["K"]`, a run-time dim written as an annotation."""

    def __getitem__(self, names: str) -> Any:
        return dynamic(names)


dyn = _Dyn()
