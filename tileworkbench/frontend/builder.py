"""The kernel that is being built: open bodies, names, buffers, the launch.

While a kernel function runs, its words append statements to the innermost open body of the current `Builder`. Control flow opens and
closes bodies; `finish` hands back the whole `Kernel`. One builder is active per thread at a time.

    builder = current("T.copy")        # raises JITNoBuilderError outside a kernel
    builder.emit(Copy(src, dst))       # span filled in from the author's line
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any

from ..base.dtypes import DType
from ..base.errors import JITNoBuilderError, TileError, TileRuntimeError, TileValueError
from ..base.span import Span
from ..ir.expr import Buffer, Const, Expr, Var
from ..ir.stmt import Body, Kernel, Launch, Let, ScalarParam, Stmt, TensorParam
from .positions import here


@dataclass(slots=True)
class Scope:
    """An open body. kind: host, launch, parallel, serial, pipelined, while, if."""

    kind: str
    body: list[Stmt] = field(default_factory=list)
    span: Span | None = None


@dataclass(slots=True)
class LaunchState:
    """The launch that is open: what `T.Kernel` was given, and what its body has asked for so far."""

    grid: tuple[Expr, ...]
    block_vars: tuple[Var, ...]
    threads: tuple[int, ...]
    thread_vars: tuple[Var, ...]
    span: Span | None = None
    allocs: list[Buffer] = field(default_factory=list)
    hints: list[tuple[str, str]] = field(default_factory=list)
    threads_used: bool = False
    cluster: tuple[int, int, int] = (1, 1, 1)

    @property
    def threads_in_all(self) -> int:
        """The threads of a block."""
        return prod(self.threads)

    def thread_index(self, dim: int = 0) -> Var:
        """The thread index of `dim`; from now on the threads of this launch are visible."""
        self.threads_used = True
        return self.thread_vars[dim]


class Builder:
    """Collects one kernel."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.scopes: list[Scope] = [Scope("host")]
        self.launch: LaunchState | None = None
        self.params: list[TensorParam | ScalarParam] = []
        self.dims: list[Var] = []
        self.workspaces: list[Buffer] = []
        self.imports: list[str] = []
        self.attrs: list[tuple[str, str]] = []
        self.hint = ""  # the name that the assignment being traced gives
        self.new_cells: dict[int, Any] = {}  # alloc_var handles that no name has been bound to yet
        self.fault: TileError | None = None  # found where nothing could be raised
        self._names: dict[str, int] = {}

    # ------------------------------------------------------------------ statements
    def emit(self, stmt: Stmt) -> None:
        """Append `stmt` to the innermost open body; a missing span becomes the author's current position."""
        if stmt.span is None:
            object.__setattr__(stmt, "span", here())  # the node was made for this call, nobody else holds it
        self.scopes[-1].body.append(stmt)

    def bind(self, expr: Expr, hint: str = "") -> Var:
        """Emit a `Let` of `expr` and return its variable, named after `hint` or the assignment's target."""
        var = Var(self.fresh(hint or self.take_hint() or "v"), expr.dtype, hint, span=expr.span)
        self.emit(Let(var, expr))
        return var

    def span(self) -> Span | None:
        """The author's current position."""
        return here()

    # ------------------------------------------------------------------ names
    def fresh(self, hint: str) -> str:
        """A unique readable name: `hint` itself, then hint_1, hint_2, ..."""
        base = re.sub(r"\W", "_", hint, flags=re.ASCII) or "v"
        if base[0].isdigit():
            base = "v" + base
        if base not in self._names:
            self._names[base] = 0
            return base
        while True:
            self._names[base] += 1
            name = f"{base}_{self._names[base]}"
            if name not in self._names:
                self._names[name] = 0
                return name

    def take_hint(self, default: str = "") -> str:
        """The name that the assignment being traced gives, or `default`."""
        return self.hint or default

    # ------------------------------------------------------------------ buffers
    def alloc(self, hint: str, shape: Sequence[Expr | int], dtype: DType, scope: str, **fields: Any) -> Buffer:
        """A new buffer (or, with `view_of=`, a view) with a unique name, registered with the launch or as a workspace.

        An empty `hint` takes the name of the assignment's target. On-chip shapes must be constant and positive.
        """
        dims = tuple(Const(d) if isinstance(d, int) else d for d in shape)
        fields.setdefault("span", here())
        is_view = fields.get("view_of") is not None
        if scope != "global":
            if self.launch is None:
                raise TileRuntimeError("on-chip buffers live in a block", span=fields["span"], hint="allocate inside `with T.Kernel(...)`")
            for d in dims:
                if not isinstance(d, Const):
                    raise TileValueError(
                        "the shape of an on-chip buffer must be constant", span=fields["span"],
                        hint="a run-time size cannot be allocated; allocate a tile of constant size and loop over it",
                    )  # fmt: skip
        for d in dims:
            if isinstance(d, Const) and d.value < 1 and scope != "global":
                raise TileValueError(f"a dim of an on-chip buffer must be at least 1, not {d.value}", span=fields["span"])
        buffer = Buffer(self.fresh(hint or self.take_hint() or "buf"), dims, dtype, scope, **fields)
        if scope != "global":
            assert self.launch is not None
            self.launch.allocs.append(buffer)
        elif not is_view:
            self.workspaces.append(buffer)
        return buffer

    # ------------------------------------------------------------------ bodies
    @contextmanager
    def scope(self, kind: str, span: Span | None = None) -> Iterator[Scope]:
        """Open a body of `kind`; the statements emitted meanwhile are in `.body` afterwards."""
        opened = self.open(kind, span)
        try:
            yield opened
        finally:
            self.close(opened)

    def open(self, kind: str, span: Span | None = None) -> Scope:
        opened = Scope(kind, span=span)
        self.scopes.append(opened)
        return opened

    def close(self, opened: Scope) -> Body:
        """Close `opened` (and, after an error, whatever is still open inside it)."""
        if opened in self.scopes:
            del self.scopes[self.scopes.index(opened) :]
        return tuple(opened.body)

    @property
    def in_parallel(self) -> bool:
        """True inside the body of a `T.Parallel`."""
        return any(s.kind == "parallel" for s in self.scopes)

    def require_launch(self, word: str) -> LaunchState:
        """The open launch; raises if `word` is used outside `T.Kernel`."""
        if self.launch is None:
            raise TileRuntimeError(f"{word} is used outside a launch", span=here(), hint="put it inside `with T.Kernel(...)`")
        return self.launch

    def require_tile_op(self, word: str) -> LaunchState:
        """As `require_launch`; also raises inside `T.Parallel`, where whole-tile operations make no sense."""
        launch = self.require_launch(word)
        if self.in_parallel:
            raise TileValueError(
                f"{word} works on whole tiles and cannot stand inside T.Parallel", span=here(),
                hint="move it out of the T.Parallel loop, or write the elements out with loads and stores",
            )  # fmt: skip
        return launch

    def annotate(self, name: str, annotation: Any, value: Any) -> Any:
        """`name: annotation` met while tracing: what `name` holds from now on (eager kernels declare a parameter)."""
        return value

    def constant(self, name: str) -> Any:
        """What `T.const(name)` gives."""
        hint = f'in a T.prim_func write {name} = T.dynamic("{name}"), outside it'
        raise TileRuntimeError("T.const belongs to eager kernels", span=here(), hint=hint)

    def before_launch(self) -> None:
        """Called when `T.Kernel` is met."""

    # ------------------------------------------------------------------ launch and kernel
    def open_launch(self, state: LaunchState) -> Scope:
        self.launch = state
        return self.open("launch", state.span)

    def close_launch(self, opened: Scope) -> None:
        state = self.launch
        assert state is not None
        body = self.close(opened)
        self.launch = None
        self.emit(Launch(
            state.grid, state.block_vars, state.threads, state.thread_vars, tuple(state.allocs), body, state.threads_used, tuple(state.hints),
            cluster=state.cluster, span=state.span,
        ))  # fmt: skip

    def finish(self) -> Kernel:
        """The whole kernel."""
        if self.fault is not None:
            raise self.fault
        body = tuple(self.scopes[0].body)
        return Kernel(self.name, tuple(self.params), tuple(self.dims), tuple(self.workspaces), body, tuple(self.imports), tuple(self.attrs))


class _Active(threading.local):
    stack: tuple[Builder, ...] = ()


_active = _Active()


def active() -> Builder | None:
    """The builder of the kernel being traced in this thread, if there is one."""
    stack = _active.stack
    return stack[-1] if stack else None


def current(word: str = "") -> Builder:
    """The active builder. Raises: JITNoBuilderError, naming `word`, outside a kernel."""
    stack = _active.stack
    if not stack:
        raise JITNoBuilderError(f"{word or 'this word'} is used outside a kernel", hint="call it inside a @T.prim_func, or in a @jit function")
    return stack[-1]


@contextmanager
def building(builder: Builder) -> Iterator[Builder]:
    """Make `builder` the active one."""
    before = _active.stack
    _active.stack = (*before, builder)
    try:
        yield builder
    finally:
        _active.stack = before
