"""Where the block comes together stands outside of branches that only some of its threads take.

Before:  if tx < 32: (a = s[tx + 32]; sync block; s[tx] = s[tx] + a)
After:   let some = tx < 32
         if some: kept[0] = s[tx + 32]
         sync block
         if some: s[tx] = s[tx] + kept[0]

So the threads that do not take the branch come to the barrier too, as the hardware wants it. A tile operation runs if some thread takes the branch;
what a block finds out, it finds out from those that do. A branch that ends in a return takes what follows as its other side.

Requires: thread-level launches, whose barriers are there.  Preserves: branches without such meetings, and those that all threads take.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..analysis.uniform import Uniformity
from ..base.dtypes import BOOL
from ..base.errors import UnsupportedError
from ..ir.build import ZERO, both, negate
from ..ir.expr import Buffer, Expr, Load, Select, Var, const
from ..ir.launches import rewrite_launches
from ..ir.node import Node, replace, rewrite, walk
from ..ir.stmt import (
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
    Return,
    Scan,
    Stmt,
    Store,
    Sync,
    While,
)  # fmt: skip
from .names import Names
from .reduce_loops import identity

_OPERATIONS = (Copy, Fill, Gemm, Reduce, Scan, ParallelFor)
_HINT = "let all threads go round together: loop to the largest count, with a branch around what each of them does"


def meet_outside(kernel: Kernel) -> Kernel:
    """Return `kernel` with barriers that all threads of a block come to."""
    names = Names(kernel)

    def change(node: Launch) -> Launch:
        return _Lifting(node, names).launch() if node.threads_used and any(map(_meets, node.body)) else node

    return rewrite_launches(kernel, change)


def _is_meeting(node: Node) -> bool:
    match node:
        case Sync(scope):
            return scope == "block"
        case Collective(op):
            return op.startswith("block_")
        case _:
            return isinstance(node, _OPERATIONS)


def _meets(stmt: Stmt) -> bool:
    """Whether the block comes together in `stmt`."""
    return any(_is_meeting(n) for n in walk(stmt))


class _Lifting:
    def __init__(self, launch: Launch, names: Names) -> None:
        self.old, self.names, self.uniform = launch, names, Uniformity(launch)
        self.kept: dict[str, Buffer] = {}  # variables of branches that were taken apart

    def launch(self) -> Launch:
        body = self.body(self.old.body, None)
        self.require_all(body)
        if not self.kept:
            return self.old if body is self.old.body else replace(self.old, body=body)
        body = tuple(rewrite(s, self.read) for s in body)
        return replace(self.old, body=body, allocs=(*self.old.allocs, *self.kept.values()))

    def require_all(self, body: Body) -> None:
        """Refuse an operation, or a value of the block, for which threads that have left are missing. A barrier does not wait for them."""
        nodes = [n for s in body for n in walk(s)]
        apart = {id(r) for r in self.returns_apart(body, False)}
        left = next((i for i, n in enumerate(nodes) if id(n) in apart), len(nodes))
        around = [n for n in nodes[:left] if isinstance(n, (For, PipelinedFor, While)) and any(id(x) in apart for x in walk(n))]
        for node in (*nodes[left:], *(x for n in around for x in walk(n))):
            if isinstance(node, _OPERATIONS) or isinstance(node, Collective) and node.op.startswith("block_"):
                what = "an operation of the whole block after some of its threads may have left"
                raise UnsupportedError(what, span=node.span, hint="put what the others do in a branch instead of T.thread_return()")

    def returns_apart(self, body: Body, apart: bool) -> Iterator[Return]:
        """Where some threads leave the launch before others."""
        for stmt in body:
            match stmt:
                case Return() if apart:
                    yield stmt
                case If(cond, then, other):
                    yield from self.returns_apart((*then, *other), apart or not self.uniform.is_uniform(cond))
                case For(_, start, stop, inner) | PipelinedFor(_, start, stop, inner):
                    yield from self.returns_apart(inner, apart or not self.uniform.all_uniform((start, stop)) or self.uniform.leaves_apart(inner))
                case While(cond, inner):
                    yield from self.returns_apart(inner, apart or not self.uniform.is_uniform(cond) or self.uniform.leaves_apart(inner))
                case _:
                    pass

    def read(self, node: Node) -> Node:
        return Load(self.kept[node.name], (ZERO,)) if isinstance(node, Var) and node.name in self.kept else node

    def body(self, body: Body, some: Var | None) -> Body:
        """`body` for the threads for which `some` holds; None: for all."""
        out: list[Stmt] = []
        run: list[Stmt] = []
        changed = False

        def flush() -> None:
            if run:
                out.extend(run if some is None else [If(some, tuple(run), span=run[0].span)])
                run.clear()

        for i, stmt in enumerate(body):
            stmt, ends = self.with_rest(stmt, body[i + 1 :])
            changed |= stmt is not body[i]
            if not _meets(stmt):
                run += (stmt,) if some is None else self.kept_apart(stmt)
                continue
            flush()
            new = self.meeting(stmt, some)
            changed |= len(new) != 1 or new[0] is not stmt
            out += new
            if ends:
                break
        flush()
        return tuple(out) if changed or some is not None else body

    def with_rest(self, stmt: Stmt, rest: Body) -> tuple[Stmt, bool]:
        """A branch that some threads leave the launch from, with what follows as its other side if the block meets there."""
        if isinstance(stmt, If) and not self.uniform.is_uniform(stmt.cond) and any(map(_meets, rest)):
            if (
                stmt.then
                and isinstance(stmt.then[-1], Return)
                and not any(isinstance(n, Return) for s in (*stmt.then[:-1], *stmt.other) for n in walk(s))
            ):
                return replace(stmt, then=stmt.then[:-1], other=(*stmt.other, *rest)), True
        return stmt, False

    def meeting(self, stmt: Stmt, some: Var | None) -> Body:
        match stmt:
            case If(cond, then, other) if some is None and self.uniform.is_uniform(cond):
                sides = self.body(then, None), self.body(other, None)
                return (stmt if sides[0] is then and sides[1] is other else replace(stmt, then=sides[0], other=sides[1]),)
            case If(cond, then, other):
                return self.branch(stmt, cond, then, other, some)
            case For(_, start, stop, body) | PipelinedFor(_, start, stop, body):
                return (self.loop(stmt, body, self.uniform.all_uniform((start, stop)), some),)
            case While(cond, body):
                return (self.loop(stmt, body, self.uniform.is_uniform(cond), some),)
            case Collective() if some is not None:
                return (replace(stmt, args=(Select(some, stmt.args[0], _neutral(stmt)),)),)
            case _ if isinstance(stmt, _OPERATIONS) and some is not None:
                found = self.names.var("any", BOOL)
                return (Collective("block_any", found, (some,), span=stmt.span), If(found, (stmt,), span=stmt.span))
            case _:
                return (stmt,)

    def branch(self, stmt: If, cond: Expr, then: Body, other: Body, some: Var | None) -> Body:
        """Both conditions are found before a side can change what they read."""
        out: list[Stmt] = []
        sides: list[Stmt] = []
        for body, test in ((then, cond), (other, negate(cond))):
            if body:
                taken = self.names.var("some", BOOL)
                self.uniform.varying.add(taken.name)
                out.append(Let(taken, test if some is None else both(some, test), span=stmt.span))
                sides += self.body(body, taken)
        return (*out, *sides)

    def loop(self, stmt: For | PipelinedFor | While, body: Body, is_uniform: bool, some: Var | None) -> Stmt:
        leaves = some is not None and any(isinstance(n, (Break, Continue)) for s in body for n in walk(s))
        if not is_uniform or leaves or self.uniform.leaves_apart(body):
            meeting = next(n for n in walk(stmt) if _is_meeting(n))
            raise UnsupportedError("threads of a block that meet in a loop which they leave at different times", span=meeting.span, hint=_HINT)
        inside = self.body(body, some)
        return stmt if inside is body else replace(stmt, body=inside)

    def kept_apart(self, stmt: Stmt) -> Body:
        """A statement of a branch that is taken apart: what it binds is kept in a variable."""
        match stmt:
            case Let(var, value):
                return (Store(self.keep(var), (ZERO,), value, span=stmt.span),)
            case Collective(result=Var() as var) | Atomic(result=Var() as var):
                told = self.names.var(var.hint or var.name, var.type)
                return (replace(stmt, result=told), Store(self.keep(var), (ZERO,), told, span=stmt.span))
            case _:
                return (stmt,)

    def keep(self, var: Var) -> Buffer:
        return self.kept.setdefault(var.name, self.names.scalar(var.hint or var.name, var.type))


def _neutral(s: Collective) -> Expr:
    """What a thread that takes no part puts in."""
    fold = s.op.removeprefix("block_")
    kind = s.args[0].dtype
    return const(0, kind) if fold == "count" else identity(fold, kind)
