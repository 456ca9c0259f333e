"""Check that IR keeps its own rules.

The frontend's output and every pass's result go through `verify`. A fault here is ours, not that of the kernel's author, so it raises
`InternalError`, with all faults found and the printed IR as a note. Stages: "tile" is what `ir/stmt.py` describes, "lowered" what
`ir/lowered.py` adds and leaves; "any" checks names and dtypes only, for IR between the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..base.dtypes import BOOL, DType
from ..base.errors import InternalError
from . import explicit
from . import expr as expr_module
from . import stmt as stmt_module
from .expr import ARITHMETIC, BITWISE, COMPARE, LOGICAL, UNARY, Binary, Buffer, Cast, Const, Expr, Load, Reinterpret, Select, Unary, Var
from .node import Node, children, walk
from .printer import print_expr, print_kernel
from .stmt import (
    Assert,
    Atomic,
    Body,
    Break,
    Collective,
    Continue,
    Copy,
    Fill,
    For,
    Gemm,
    If,
    Kernel,
    Launch,
    Let,
    ParallelFor,
    PipelinedFor,
    Reduce,
    Region,
    ScalarParam,
    Scan,
    Stmt,
    Store,
    TensorParam,
    While,
)

_TILE_OPS = (Copy, Fill, Gemm, Reduce, Scan)
_TILE_STAGE = (expr_module.__name__, stmt_module.__name__, explicit.__name__)
_GONE = (*_TILE_OPS, Launch, Atomic, ParallelFor, PipelinedFor, stmt_module.Sync, Collective)
_REDUCTIONS = ("sum", "abssum", "max", "min", "absmax", "bitand", "bitor", "bitxor", "any", "all")
_ATOMICS = ("add", "max", "min", "or", "and", "xor", "exch", "load", "store")


def verify(kernel: Kernel, stage: str = "tile") -> None:
    """Return if `kernel` is valid at `stage` ("tile", "lowered" or "any"); raise InternalError with every fault otherwise."""
    if stage not in ("tile", "lowered", "any"):
        raise ValueError(f"no such stage: {stage!r}")
    checker = _Checker(stage)
    checker.kernel(kernel)
    if checker.faults:
        error = InternalError(f"{kernel.name} is not valid {stage} IR: " + "; ".join(checker.faults))
        error.add_note(print_kernel(kernel, spans=True))
        raise error


@dataclass(slots=True)
class _Checker:
    stage: str
    faults: list[str] = field(default_factory=list)
    bound: dict[str, Var] = field(default_factory=dict)  # the variables in scope
    buffers: dict[str, Buffer] = field(default_factory=dict)
    loops: int = 0
    in_launch: bool = False
    in_parallel: bool = False

    def fault(self, text: str, node: Node | None = None) -> None:
        place = f" ({node.span.where})" if node is not None and node.span is not None else ""
        if text + place not in self.faults:
            self.faults.append(text + place)

    def require(self, holds: bool, text: str, node: Node | None = None) -> None:
        if not holds:
            self.fault(text, node)

    # ------------------------------------------------------------------------------------------ kernel and bodies
    def kernel(self, k: Kernel) -> None:
        for dim in k.dims:
            self.bind(dim)
        for param in k.params:
            if isinstance(param, ScalarParam):
                self.bind(param.var)
            else:
                self.declare(param.buffer)
        for buffer in k.workspaces:
            self.declare(buffer)
        tensors = [p.buffer for p in k.params if isinstance(p, TensorParam)] + list(k.workspaces)
        self.require(all(b.scope == "global" for b in tensors), "a parameter or workspace is not global")
        self.body(k.body)

    def bind(self, var: Var) -> None:
        self.require(var.name not in self.bound, f"variable {var.name} is bound twice")
        self.bound[var.name] = var

    def declare(self, buffer: Buffer) -> None:
        known = self.buffers.setdefault(buffer.name, buffer)
        self.require(known is buffer or known == buffer, f"two buffers are called {buffer.name}")
        for e in (*buffer.shape, *(buffer.strides or ()), *(() if buffer.offset is None else (buffer.offset,))):
            self.expr(e)
        self.require(buffer.strides is None or len(buffer.strides) == buffer.rank, f"{buffer.name} has {buffer.rank} dims but other strides")
        if buffer.view_of is not None:
            self.use(buffer.view_of)

    def body(self, body: Body, *bind: Var, loop: bool = False) -> None:
        before = dict(self.bound)
        for var in bind:
            self.bind(var)
        self.loops += loop
        for s in body:
            self.require(isinstance(s, Stmt), f"{type(s).__name__} is no statement")
            self.stage_allows(s)
            self.stmt(s)
        self.loops -= loop
        self.bound = before

    def stage_allows(self, node: Node) -> None:
        kind = type(node)
        if self.stage == "tile":
            self.require(kind.__module__ in _TILE_STAGE, f"{kind.__name__} before lowering", node)
            host = isinstance(node, Let | If | For | While | Launch | Assert | Break | Continue) or not isinstance(node, Stmt)
            self.require(host or self.in_launch, f"{kind.__name__} outside a launch", node)
        elif self.stage == "lowered":
            self.require(not isinstance(node, _GONE), f"{kind.__name__} after lowering", node)

    # ------------------------------------------------------------------------------------------ statements
    def stmt(self, s: Stmt) -> None:
        match s:
            case Launch():
                self.launch(s)
            case ParallelFor(loop_vars, extents, body):
                self.exprs(extents)
                self.require(len(loop_vars) == len(extents), "a parallel loop whose variables and extents differ in number", s)
                before, self.in_parallel = self.in_parallel, True
                self.body(body, *loop_vars)
                self.in_parallel = before
            case For(var, start, stop, body) | PipelinedFor(var, start, stop, body):
                self.exprs((start, stop))
                self.require(not isinstance(s, For) or s.step != 0, "a loop of step 0", s)
                self.body(body, var, loop=True)
            case While(cond, body):
                self.condition(cond, s)
                self.body(body, loop=True)
            case If(cond, then, other):
                self.condition(cond, s)
                self.body(then)
                self.body(other)
            case Let(var, value):
                self.expr(value)
                self.require(var.type == value.dtype, f"let {var.name}: {var.type} = a value of {value.dtype}", s)
                self.bind(var)
            case Break() | Continue():
                self.require(self.loops > 0 or self.stage == "any", f"{type(s).__name__} outside a loop", s)
            case Assert(cond):
                self.condition(cond, s)
            case Store(buffer, indices, value):
                self.use(buffer)
                self.indices(buffer, indices, s)
                self.value(value, buffer, s)
            case Copy() | Fill() | Gemm() | Reduce() | Scan() | Atomic() | Collective():
                self.operation(s)
            case _:
                self.others(s)

    def launch(self, s: Launch) -> None:
        self.require(not self.in_launch, "a launch inside a launch", s)
        self.require(1 <= len(s.grid) <= 3 and len(s.grid) == len(s.block_vars), "a grid needs 1-3 extents and as many variables", s)
        self.require(1 <= len(s.threads) <= 3 and all(t > 0 for t in s.threads), f"threads {s.threads}", s)
        self.exprs(s.grid)
        before, known, self.in_launch = dict(self.bound), dict(self.buffers), True
        for var in s.block_vars + (s.thread_vars if s.threads_used else ()):
            self.bind(var)
        for buffer in s.allocs:
            self.require(buffer.is_on_chip, f"{buffer.name} is allocated in a launch but {buffer.scope}", s)
            self.require(all(isinstance(d, Const) for d in buffer.shape), f"{buffer.name} has a symbolic shape on chip", s)
            self.declare(buffer)
        self.body(s.body)
        self.bound, self.buffers, self.in_launch = before, known, False

    def operation(self, s: Stmt) -> None:
        """The whole-tile operations, atomics and collectives."""
        for region in (n for n in children(s) if isinstance(n, Region)):
            self.region(region, s)
        self.exprs(n for n in children(s) if isinstance(n, Expr) and not isinstance(n, Var))
        self.require(not (self.in_parallel and isinstance(s, _TILE_OPS)), f"{type(s).__name__} in a parallel loop", s)
        match s:
            case Copy(src, dst):
                self.same_box(src, dst, s)
            case Fill(dst, value):
                self.value(value, dst.buffer, s)
            case Gemm(a, b, c, trans_a, trans_b, clear):
                self.condition(clear, s)
                if min(len(a.extents), len(b.extents), len(c.extents)) < 2:
                    self.fault("gemm of fewer than 2 dims", s)
                    return
                (m, ka), (kb, n) = _flipped(a.extents[-2:], trans_a), _flipped(b.extents[-2:], trans_b)
                self.require(_may_equal((m, ka, n), (c.extents[-2], kb, c.extents[-1])), "gemm of shapes that do not fit", s)
            case Reduce(op, src, dst, dim):
                self.require(op in _REDUCTIONS, f"no such reduction: {op}", s)
                if not 0 <= dim < len(src.extents):
                    self.fault(f"reduce over dim {dim} of {len(src.extents)}", s)
                    return
                rest = src.extents[:dim] + src.extents[dim + 1 :]
                self.require(_may_equal(_long(rest), _long(dst.extents)), "reduce into a region that does not fit", s)
            case Scan(op, src, dst, dim):
                self.require(op in ("sum", "max", "min"), f"no such scan: {op}", s)
                self.require(0 <= dim < len(src.extents), f"scan along dim {dim} of {len(src.extents)}", s)
                self.require(_may_equal(src.extents, dst.extents), "scan into a region that does not fit", s)
            case Atomic(op, dst, value, result):
                self.require(op in _ATOMICS, f"no such atomic: {op}", s)
                self.require((value is None) == (op == "load"), f"atomic {op} with the wrong number of values", s)
                if isinstance(value, Region):
                    self.same_box(value, dst, s)
                if result is not None:
                    self.bind(result)
            case Collective(result=result):
                self.bind(result)

    def others(self, s: Stmt) -> None:
        """A statement without rules of its own, or one of a later stage: its expressions, then its bodies."""
        declared: list[Var] = []
        for node in children(s):
            match node:
                case Stmt():
                    pass
                case Buffer():
                    self.buffers.setdefault(node.name, node) if self.stage != "tile" else self.use(node)
                case Var() if node.name not in self.bound:
                    declared.append(node)
                case Expr():
                    self.expr(node)
        bodies = tuple(n for n in children(s) if isinstance(n, Stmt))
        if bodies:
            self.body(bodies, *declared, loop=True)
        else:
            for var in declared:
                self.fault(f"{var.name} is used where it is not bound", s)

    # ------------------------------------------------------------------------------------------ parts
    def region(self, r: Region, s: Stmt) -> None:
        self.use(r.buffer)
        self.indices(r.buffer, r.starts, s)
        self.require(len(r.extents) == r.buffer.rank, f"a region of {r.buffer.name} with {len(r.extents)} extents", s)
        self.exprs(r.extents)
        self.require(not r.buffer.is_on_chip or all(isinstance(e, Const) for e in r.extents), f"a region of {r.buffer.name} of symbolic extent", s)

    def same_box(self, a: Region, b: Region, s: Stmt) -> None:
        fits = _may_equal(_long(a.extents), _long(b.extents))
        self.require(fits, f"regions {print_expr(a)} and {print_expr(b)} do not fit", s)  # type: ignore[arg-type]  # prints regions too

    def use(self, buffer: Buffer) -> None:
        if self.stage == "lowered":
            return  # declarations are statements there
        known = self.buffers.get(buffer.name)
        if known is None and buffer.view_of is not None:  # a view need not be declared
            self.declare(buffer)
        elif known is None:
            self.fault(f"buffer {buffer.name} is not declared")
        elif known is not buffer and known != buffer:
            self.fault(f"two buffers are called {buffer.name}")

    def indices(self, buffer: Buffer, indices: tuple[Expr, ...], node: Node) -> None:
        self.require(len(indices) == buffer.rank, f"{len(indices)} indices for the {buffer.rank} dims of {buffer.name}", node)
        for index in indices:
            self.expr(index)
            self.require(index.dtype.is_int, f"an index of {buffer.name} is {index.dtype}", node)

    def value(self, value: Expr, buffer: Buffer, node: Node) -> None:
        self.expr(value)
        self.require(value.dtype == buffer.dtype, f"a value of {value.dtype} for {buffer.name} of {buffer.dtype}", node)

    def condition(self, e: Expr, node: Node) -> None:
        self.expr(e)
        self.require(e.dtype == BOOL or self.stage != "tile", f"a condition of {e.dtype}", node)

    def exprs(self, items: Iterable[Expr]) -> None:
        for e in items:
            self.expr(e)

    def expr(self, e: Expr) -> None:
        for node in walk(e):
            if isinstance(node, Expr):
                if self.stage == "tile":
                    self.require(type(node).__module__ in _TILE_STAGE, f"{type(node).__name__} before lowering", node)
                self.one(node)

    def one(self, e: Expr) -> None:
        match e:
            case Var(name):
                known = self.bound.get(name)
                self.require(known is not None, f"{name} is used where it is not bound", e)
                self.require(known is None or known.type == e.type, f"{name} is used as {e.type}", e)
            case Load(buffer, indices):
                self.use(buffer)
                self.require(len(indices) == buffer.rank, f"{len(indices)} indices for the {buffer.rank} dims of {buffer.name}", e)
                self.require(all(i.dtype.is_int for i in indices), f"an index of {buffer.name} is no integer", e)
            case Binary(op, a, b):
                self.require(op in (*ARITHMETIC, *BITWISE, *COMPARE, *LOGICAL), f"no such operator: {op}", e)
                if self.stage != "lowered":
                    self.require(a.dtype == b.dtype, f"{op} of {a.dtype} and {b.dtype}", e)
                    self.require(_applies(op, a.dtype), f"{op} of {a.dtype}", e)
            case Unary(op, x):
                self.require(op in UNARY, f"no such function: {op}", e)
                self.require(x.dtype.is_bool or op != "not" or self.stage == "lowered", f"{op} of {x.dtype}", e)
            case Select(cond, then, other):
                self.require(cond.dtype == BOOL or self.stage == "lowered", f"a condition of {cond.dtype}", e)
                self.require(then.dtype == other.dtype, f"a select of {then.dtype} and {other.dtype}", e)
            case Reinterpret(x, to):
                self.require(x.dtype.bits == to.bits, f"the bits of {x.dtype} as {to}", e)
            case Const(value, dtype):
                self.require(dtype.is_float or dtype.min <= value <= dtype.max, f"{value} is no {dtype}", e)
            case Cast() | _:
                pass


def _applies(op: str, dtype: DType) -> bool:
    if op in LOGICAL:
        return dtype.is_bool
    if op in BITWISE:
        return dtype.is_int or (dtype.is_bool and op.startswith("bit"))
    if op in ("div", "atan2", "fmod", "copysign", "hypot"):
        return dtype.is_float
    return op in COMPARE or op in ("min", "max") or not dtype.is_bool


def _flipped(pair: tuple[Expr, ...], flip: bool) -> tuple[Expr, Expr]:
    return (pair[1], pair[0]) if flip else (pair[0], pair[1])


def _long(extents: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The extents other than 1."""
    return tuple(e for e in extents if not (isinstance(e, Const) and e.value == 1))


def _may_equal(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> bool:
    """False if two lists of extents surely differ; symbolic ones may hold 1, so their number proves nothing."""
    if not all(isinstance(e, Const) for e in a + b):
        return True
    return len(a) == len(b) and all(x.value == y.value for x, y in zip(a, b, strict=True) if isinstance(x, Const) and isinstance(y, Const))
