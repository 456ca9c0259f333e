"""Meanings of the structure words: launches, loops, buffers, dims (language/structure.py)."""

from __future__ import annotations

import operator
from math import prod
from typing import Any

from ..base.errors import TileRuntimeError, TileSyntaxError, TileTypeError, TileValueError
from ..ir.expr import Expr, Var
from ..language import structure as words
from ..language._dispatch import impl
from ..language.types import TensorType, as_dtype, as_shape
from . import arith
from .builder import Builder, LaunchState, Scope, current
from .loops import GridLoop, ParallelLoop, PersistentLoop, PipelinedLoop, SerialLoop, index_expr
from .positions import here
from .trace import declare_tensor
from .values import BufferValue, Value, VarCell, as_expr

SCOPES = {
    "global": "global", "shared": "shared", "shared.dyn": "shared", "local.fragment": "fragment", "fragment": "fragment", "local": "local",
    "local.var": "var", "var": "var",
}  # fmt: skip
MOST_BLOCKS = 8  # of a cluster on any GPU that has them. Source: CUDA C++ Programming Guide, "Thread Block Clusters"


# ---------------------------------------------------------------------------------------------- launches
class LaunchContext:
    """`with T.Kernel(...) as (bx, by):`; entering opens the launch and gives the block indices."""

    def __init__(self, builder: Builder, grid: tuple[Expr, ...], threads: tuple[int, ...], cluster: tuple[int, int, int]) -> None:
        self.builder, self.grid, self.threads, self.cluster = builder, grid, threads, cluster
        self.names: tuple[str, ...] = ()
        self.scope: Scope | None = None
        self.span = here()

    def set_names(self, names: tuple[str, ...]) -> None:
        self.names = names

    def __enter__(self) -> Any:
        builder = self.builder
        names = self.names if len(self.names) == len(self.grid) else ("bx", "by", "bz")
        blocks = tuple(Var(builder.fresh(n), hint=n) for n, _ in zip(names, self.grid, strict=False))
        threads = tuple(Var(builder.fresh(n), hint=n) for n, _ in zip(("tx", "ty", "tz"), self.threads, strict=False))
        self.scope = builder.open_launch(LaunchState(self.grid, blocks, self.threads, threads, self.span, cluster=self.cluster))
        if len(self.names) > 1 and len(self.names) != len(blocks):
            extents = f"{len(blocks)} grid extent{'s' * (len(blocks) > 1)}"
            raise TileValueError(f"T.Kernel has {extents}, but {len(self.names)} names after `as`", span=self.span, hint="give one name per extent")
        return Value(blocks[0]) if len(blocks) == 1 else tuple(Value(b) for b in blocks)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None and self.scope is not None:
            self.builder.close_launch(self.scope)


@impl(words.Kernel)
def _kernel(*blocks: Any, threads: Any = None, prelude: Any = None, cluster_dims: Any = None) -> Any:
    builder = current("T.Kernel")
    builder.before_launch()
    if builder.launch is not None:
        raise TileRuntimeError("T.Kernel inside T.Kernel", hint="end the first launch before the second; launches of one kernel run in order")
    if not 1 <= len(blocks) <= 3:
        raise TileValueError(f"T.Kernel takes 1 to 3 grid extents, got {len(blocks)}", hint="fold dims into one; split the index with // and %")
    grid = tuple(index_expr(b, "a grid extent") for b in blocks)
    total = 1
    for size in (arith.const_int(extent) for extent in grid):
        if size is not None and size < 0:
            raise TileValueError(f"a grid extent cannot be negative: {size}")
        total *= 1 if size is None else size
    if total >= 1 << 48:
        raise TileValueError(f"a grid of {total} blocks would never end", hint="let one block do more: larger tiles, or a loop in the block")
    if prelude:
        builder.imports.append(str(prelude))
    return LaunchContext(builder, grid, _threads(threads), _cluster(cluster_dims, len(grid)))


@impl(words.ClusterKernel)
def _cluster_kernel(*blocks: Any, cluster_dims: Any = None, threads: Any = None, prelude: Any = None) -> Any:
    return _kernel(*blocks, threads=threads, prelude=prelude, cluster_dims=cluster_dims)


def _threads(threads: Any) -> tuple[int, ...]:
    """Thread extents as ints. Raises: TileTypeError, TileValueError."""
    extents = [128] if threads is None else list(threads) if isinstance(threads, tuple | list) else [threads]
    try:
        sizes = tuple(operator.index(t) for t in extents)
    except TypeError:
        raise TileTypeError(f"threads must be ints known when the kernel is built, got {threads!r}") from None
    if not 1 <= len(sizes) <= 3:
        raise TileValueError(f"threads has {len(sizes)} dims", hint="one to three")
    if min(sizes) <= 0:
        raise TileValueError(f"threads must be positive, got {threads}", hint="128 is a good start")
    return sizes


def _cluster(dims: Any, axes: int) -> tuple[int, int, int]:
    """Blocks of a cluster along x, y, z. Raises: TileTypeError, TileValueError."""
    given = [] if dims is None else list(dims) if isinstance(dims, tuple | list) else [dims]
    try:
        sizes = [operator.index(d) for d in given]
    except TypeError:
        raise TileTypeError(f"cluster_dims must be ints known when the kernel is built, got {dims!r}") from None
    if len(sizes) > 3 or any(d < 1 for d in sizes):
        raise TileValueError(f"cluster_dims={dims!r} is no shape of blocks", hint="one to three positive ints, x first: cluster_dims=(2, 1, 1)")
    if prod(sizes) > MOST_BLOCKS:
        raise TileValueError(f"a cluster of {prod(sizes)} blocks; every GPU with clusters has room for {MOST_BLOCKS}", hint="cluster_dims=(2, 1, 1)")
    if any(d > 1 for d in sizes[axes:]):
        raise TileValueError(f"cluster_dims={dims!r} counts blocks along an axis that the grid does not have", hint="give as many as grid extents")
    x, y, z = (*sizes, 1, 1, 1)[:3]
    return x, y, z


# ---------------------------------------------------------------------------------------------- loops
@impl(words.Parallel)
def _parallel(*extents: Any, coalesced_width: Any = None, loop_layout: Any = None, prefer_async: Any = None, annotations: Any = None) -> Any:
    current("T.Parallel")
    return ParallelLoop(extents)


@impl(words.Pipelined)
def _pipelined(
    start: Any, stop: Any = None, num_stages: int = 0, order: Any = None, stage: Any = None, sync: Any = None, group: Any = None,
    annotations: Any = None,
) -> Any:  # fmt: skip
    current("T.Pipelined")
    return PipelinedLoop(start, stop, num_stages, order, stage)


@impl(words.serial)
def _serial(start: Any, stop: Any = None, step: Any = None, *, annotations: Any = None) -> Any:
    current("T.serial")
    return SerialLoop("T.serial", "serial", start, stop, step)


@impl(words.unroll)
def _unroll(start: Any, stop: Any = None, step: Any = None, *, explicit: bool = False, unroll_factor: Any = None, annotations: Any = None) -> Any:
    current("T.unroll")
    return SerialLoop("T.unroll", "unroll", start, stop, step)


@impl(words.vectorized)
def _vectorized(start: Any, stop: Any = None, *, annotations: Any = None) -> Any:
    current("T.vectorized")
    return SerialLoop("T.vectorized", "vectorized", start, stop)


@impl(words.grid)
def _grid(*extents: Any) -> Any:
    current("T.grid")
    return GridLoop(extents)


@impl(words.Persistent)
def _persistent(domain: Any, wave_size: Any, index: Any, group_size: int = 8) -> Any:
    current("T.Persistent")
    return PersistentLoop(domain, wave_size, index, group_size)


@impl(words.thread_binding)
def _thread_binding(start: Any, stop: Any = None, thread: str = "threadIdx.x", annotations: Any = None) -> Any:
    """A value that, like every launch index, can also be looped over once."""
    launch = current("T.thread_binding").require_launch("T.thread_binding")
    if thread not in ("threadIdx.x", "threadIdx.y", "threadIdx.z"):
        raise TileValueError(f"T.thread_binding cannot bind {thread}", hint='"threadIdx.x", ".y" or ".z"; block indices come from T.Kernel')
    dim, extent = "xyz".index(thread[-1]), index_expr(start if stop is None else stop - start)
    if dim >= len(launch.threads) or arith.const_int(extent) != launch.threads[dim]:
        raise TileValueError("the extent of T.thread_binding must be that of the launch's threads", hint=f"threads={launch.threads}")
    return Value(launch.thread_index(dim))


# ---------------------------------------------------------------------------------------------- dims and parameters
@impl(words.dynamic)
def _dynamic(name: str, dtype: Any = "int32") -> Any:
    if not as_dtype(dtype).is_int:
        raise TileTypeError(f"T.dynamic: a dim is an integer, not {as_dtype(dtype)}", hint='several names go into one string: T.dynamic("m, n")')
    return _one_or_all([Value(Var(n, hint=n)) for n in _split(name, "T.dynamic")])


@impl(words.const)
def _const(names: str, dtype: Any = "int32") -> Any:
    builder = current("T.const")
    return _one_or_all([builder.constant(n) for n in _split(names, "T.const")])


@impl(words.empty)
def _empty(*shape: Any, dtype: Any = "float32") -> Any:
    builder = current("T.empty")
    if builder.launch is not None:
        raise TileRuntimeError("T.empty inside T.Kernel", hint="declare outputs before the launch; inside, use T.alloc_shared or T.alloc_fragment")
    dims: Any = shape
    if len(shape) == 2 and isinstance(shape[0], tuple | list):
        dims, dtype = shape
    elif len(shape) > 1 and isinstance(shape[-1], str):
        dims, dtype = shape[:-1], shape[-1]
    if len(dims) == 1 and isinstance(dims[0], tuple | list):
        dims = dims[0]
    return declare_tensor(builder, builder.take_hint("out"), TensorType(as_shape(dims), as_dtype(dtype)), here(), is_output=True)


def _split(names: Any, word: str) -> list[str]:
    if not isinstance(names, str) or not (found := names.replace(",", " ").split()):
        raise TileTypeError(f"{word} takes names in one string, got {names!r}", hint=f'write M, N = {word}("M, N")')
    for name in found:
        if not name.isidentifier():
            raise TileSyntaxError(f"{word}: {name!r} is not a name")
    return found


def _one_or_all(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else tuple(values)


# ---------------------------------------------------------------------------------------------- buffers
def _alloc(word: str, shape: Any, dtype: Any, scope: str) -> BufferValue:
    builder = current(word)
    kind = SCOPES.get(scope)
    if kind is None:
        raise TileValueError(f"{word} knows no scope {scope!r}", hint=f"one of {', '.join(SCOPES)}")
    return BufferValue(builder.alloc("", [_dim(d) for d in as_shape(shape)], as_dtype(dtype), kind))


def _dim(dim: Any) -> Expr:
    return arith.as_index(as_expr(dim))


@impl(words.alloc_shared)
def _alloc_shared(shape: Any, dtype: Any = "float32", scope: str = "shared.dyn") -> Any:
    return _alloc("T.alloc_shared", shape, dtype, scope)


@impl(words.alloc_fragment)
def _alloc_fragment(shape: Any, dtype: Any = "float32", scope: str = "local.fragment") -> Any:
    return _alloc("T.alloc_fragment", shape, dtype, scope)


@impl(words.alloc_local)
def _alloc_local(shape: Any, dtype: Any = "float32", scope: str = "local") -> Any:
    return _alloc("T.alloc_local", shape, dtype, scope)


@impl(words.alloc_global)
def _alloc_global(shape: Any, dtype: Any = "float32", scope: str = "global") -> Any:
    return _alloc("T.alloc_global", shape, dtype, scope)


@impl(words.alloc_buffer)
def _alloc_buffer(shape: Any, dtype: Any = "float32", scope: str = "shared") -> Any:
    return _alloc("T.alloc_buffer", shape, dtype, scope)


@impl(words.alloc_var)
def _alloc_var(dtype: Any, *args: Any, scope: str = "local.var", init: Any = None) -> Any:
    builder = current("T.alloc_var")
    for arg in args:  # alloc_var(dtype, init), alloc_var(dtype, "local.var"), alloc_var(dtype, init, "local.var")
        if isinstance(arg, str) and arg in SCOPES:
            scope = arg
        else:
            init = arg
    if SCOPES.get(scope) != "var":
        raise TileValueError(f"T.alloc_var knows no scope {scope!r}", hint='"local.var"; for an array use T.alloc_local')
    kind = as_dtype(dtype)
    cell = VarCell(builder.alloc("", [1], kind, "var"))
    builder.new_cells[id(cell)] = cell
    cell.store(0 if init is None else init)
    return cell
