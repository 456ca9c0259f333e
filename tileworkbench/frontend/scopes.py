"""Which names live where: for every assignment of a kernel function, what Python cannot see and the kernel must not get wrong.

Python runs a kernel loop's body once and both sides of a kernel branch; a name that is rebound there and read afterwards, or in the
next iteration, would silently keep the wrong value. Two questions are answered for each assigned name, from the syntax tree alone:

- `before`: is the name bound when the assignment runs (never, maybe, surely)?
- `escapes`: for each enclosing loop or branch, is the new value read after it (or in its next iteration), and where?

Whether a loop or branch belongs to the kernel or to Python is known only while tracing; `control.rebind` decides then.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from .syntax import children, statements

Construct = ast.If | ast.For | ast.While
Live = dict[str, ast.Name]  # a live name and one place that reads it
NEVER, MAYBE, SURELY = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Escape:
    """The name assigned inside `construct` is read outside this iteration or side of it, at `reader`."""

    construct: Construct
    reader: ast.Name
    is_new: bool  # the name was not bound when the construct began


@dataclass(slots=True)
class Scopes:
    """The answers, by the `ast.Name` (or `ast.For`, `ast.AugAssign`) node that assigns."""

    before: dict[ast.AST, int] = field(default_factory=dict)
    escapes: dict[ast.AST, tuple[Escape, ...]] = field(default_factory=dict)


def find_scopes(function: ast.FunctionDef) -> Scopes:
    """Analyse one function; nested functions count as readers of what they capture."""
    flow = _Liveness()
    flow.captured = {n.id: n for d in _nested(function.body) for n in reads_of_function(d)}
    flow.block(function.body, {})
    args = function.args
    params = [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs, *filter(None, (args.vararg, args.kwarg)))]
    forward = _Bindings(flow)
    forward.block(function.body, dict.fromkeys(params, SURELY), ())
    return forward.result


# ---------------------------------------------------------------------------------------------- backward: what is read later
class _Liveness:
    """Fills `after` (names read after a construct) and `again` (names read in a loop's next iteration before being bound)."""

    def __init__(self) -> None:
        self.after: dict[Construct, Live] = {}
        self.again: dict[Construct, Live] = {}
        self.captured: Live = {}
        self._loops: list[tuple[Live, Live]] = []  # live at (break, continue)
        self._found: dict[tuple[ast.AST | None, ...], Live] = {}

    def reads(self, *nodes: ast.AST | None) -> Live:
        """The names that the nodes read; loops ask several times."""
        found = self._found.get(nodes)
        if found is None:
            found = self._found[nodes] = {n.id: n for node in nodes for n in _read_nodes(node)}
        return found

    def block(self, body: Sequence[ast.stmt], out: Live) -> Live:
        for stmt in reversed(body):
            out = self.stmt(stmt, out)
        return out

    def stmt(self, stmt: ast.stmt, out: Live) -> Live:
        match stmt:
            case ast.If():
                self.after[stmt] = out | self.captured
                return self.block(stmt.orelse, out) | self.block(stmt.body, out) | self.reads(stmt.test)
            case ast.For() | ast.While():
                return self._loop(stmt, out)
            case ast.With():
                out = self.block(stmt.body, out)
                for item in stmt.items:
                    out = _without(out, targets_of(item.optional_vars)) | self.reads(item.context_expr)
                return out
            case ast.Return() | ast.Raise():
                return self.reads(stmt)
            case ast.Break() | ast.Continue() if self._loops:
                return self._loops[-1][isinstance(stmt, ast.Continue)]
            case ast.Assign():
                killed = [name for target in stmt.targets for name in targets_of(target)]
                return _without(out, killed) | self.reads(*stmt.targets, stmt.value)
            case ast.AugAssign():
                own = {stmt.target.id: stmt.target} if isinstance(stmt.target, ast.Name) else {}
                return out | self.reads(stmt.target, stmt.value) | own
            case ast.AnnAssign():
                killed = targets_of(stmt.target) if stmt.value is not None else []
                return _without(out, killed) | self.reads(stmt.annotation, stmt.value, stmt.target)
            case ast.FunctionDef():
                return _without(out, [stmt.name]) | {n.id: n for n in reads_of_function(stmt)} | self.reads(*stmt.decorator_list)
            case _:
                return out | self.reads(stmt)

    def _loop(self, loop: ast.For | ast.While, out: Live) -> Live:
        self.after[loop] = out | self.captured
        after = self.block(loop.orelse, out)
        head: Live = {}
        for _ in range(2):  # the second round sees what the first found at the loop's head
            self._loops.append((out, after | head))
            body = self.block(loop.body, after | head)
            self._loops.pop()
            head = _without(body, targets_of(loop.target)) if isinstance(loop, ast.For) else body | self.reads(loop.test)
        self.again[loop] = head
        return after | head | (self.reads(loop.iter) if isinstance(loop, ast.For) else {})


# ---------------------------------------------------------------------------------------------- forward: what is bound already
class _Bindings:
    def __init__(self, flow: _Liveness) -> None:
        self.flow = flow
        self.result = Scopes()

    def block(self, body: Sequence[ast.stmt], state: dict[str, int], inside: tuple[tuple[Construct, dict[str, int]], ...]) -> None:
        for stmt in body:
            self.stmt(stmt, state, inside)

    def stmt(self, stmt: ast.stmt, state: dict[str, int], inside: tuple[tuple[Construct, dict[str, int]], ...]) -> None:
        match stmt:
            case ast.If():
                here = (*inside, (stmt, dict(state)))
                other = dict(state)
                self.block(stmt.body, state, here)
                self.block(stmt.orelse, other, here)
                for name in {*state, *other}:
                    a, b = state.get(name, NEVER), other.get(name, NEVER)
                    state[name] = a if a == b else MAYBE
            case ast.For() | ast.While():
                here = (*inside, (stmt, dict(state)))
                for name in assigned_in([stmt]):
                    state[name] = max(state.get(name, NEVER), MAYBE)
                before = dict(state)
                if isinstance(stmt, ast.For):
                    self._target(stmt.target, state, here)
                self.block(stmt.body, state, here)
                state.clear()
                state.update(before)
                self.block(stmt.orelse, state, inside)
            case ast.With():
                for item in stmt.items:
                    self._target(item.optional_vars, state, inside)
                self.block(stmt.body, state, inside)
            case ast.Assign():
                for target in stmt.targets:
                    self._target(target, state, inside)
            case ast.AugAssign() | ast.AnnAssign():
                self._target(stmt.target, state, inside)
            case ast.FunctionDef():
                state[stmt.name] = SURELY
            case ast.Import() | ast.ImportFrom():
                for alias in stmt.names:
                    state[(alias.asname or alias.name).partition(".")[0]] = SURELY

    def _target(self, target: ast.expr | None, state: dict[str, int], inside: tuple[tuple[Construct, dict[str, int]], ...]) -> None:
        for node in _name_nodes(target):
            self.result.before[node] = state.get(node.id, NEVER)
            found = []
            for construct, entry in inside:
                live = self.flow.after[construct]
                reader = live.get(node.id)
                if reader is None and not _is_loop_target(node, construct):
                    reader = self.flow.again.get(construct, {}).get(node.id)
                if reader is not None:
                    found.append(Escape(construct, reader, entry.get(node.id, NEVER) == NEVER))
            if found:
                self.result.escapes[node] = tuple(found)
            state[node.id] = SURELY


def _is_loop_target(node: ast.Name, construct: Construct) -> bool:
    return isinstance(construct, ast.For) and any(node is n for n in _name_nodes(construct.target))


# ---------------------------------------------------------------------------------------------- reading a tree
def reads_of_function(function: ast.FunctionDef | ast.Lambda) -> Iterator[ast.Name]:
    """The names that a nested function reads from outside itself."""
    args = function.args
    own = {a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs, *filter(None, (args.vararg, args.kwarg)))}
    body: Iterable[ast.AST] = [function.body] if isinstance(function, ast.Lambda) else function.body
    if isinstance(function, ast.FunctionDef):
        own |= assigned_in(function.body)
    for default in (*args.defaults, *args.kw_defaults):
        yield from _read_nodes(default)
    for node in body:
        for read in _read_nodes(node):
            if read.id not in own:
                yield read


def assigned_in(body: Sequence[ast.stmt]) -> set[str]:
    """Every name that the statements assign in their own function."""
    found: set[str] = set()
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(a.asname or a.name).partition(".")[0] for a in node.names}
        elif not isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            stack.extend(children(node))
    return found


def targets_of(target: ast.expr | None) -> list[str]:
    """The names that an assignment target binds."""
    return [n.id for n in _name_nodes(target)]


def _name_nodes(target: ast.expr | None) -> list[ast.Name]:
    match target:
        case ast.Name():
            return [target]
        case ast.Tuple() | ast.List():
            return [n for e in target.elts for n in _name_nodes(e)]
        case ast.Starred():
            return _name_nodes(target.value)
    return []


def _read_nodes(node: ast.AST | None) -> Iterator[ast.Name]:
    match node:
        case None:
            return
        case ast.Name():
            if isinstance(node.ctx, ast.Load):
                yield node
        case ast.Lambda() | ast.FunctionDef():
            yield from reads_of_function(node)
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            own = {name for g in node.generators for name in targets_of(g.target)}
            for child in children(node):
                yield from (n for n in _read_nodes(child) if n.id not in own)
        case _:
            for child in children(node):
                yield from _read_nodes(child)


def _nested(body: Sequence[ast.stmt]) -> list[ast.FunctionDef]:
    return [node for node in statements(*body) if isinstance(node, ast.FunctionDef)]


def _without(live: Live, names: Iterable[str]) -> Live:
    names = set(names)
    return {k: v for k, v in live.items() if k not in names} if names else live
