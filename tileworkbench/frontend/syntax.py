"""Walking Python syntax trees (several times faster than `ast.walk`: tracing time is part of every edit) and making nodes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

N = TypeVar("N", bound=ast.AST)

_LEAVES = (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop, ast.Constant)


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes directly below `node`, without contexts and operators."""
    found: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if type(value) is list:
            found += [v for v in value if isinstance(v, ast.AST)]
        elif isinstance(value, ast.AST) and not isinstance(value, _LEAVES):
            found.append(value)
    return found


def walk(*nodes: ast.AST) -> Iterator[ast.AST]:
    """Every node of the trees, in no particular order."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, ast.Name):
            stack += children(node)


def statements(*nodes: ast.AST) -> Iterator[ast.AST]:
    """The statements of the trees, nested ones included, without looking into expressions."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        yield node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, name, None)
            if type(inner) is list:
                stack += inner


# ---------------------------------------------------------------------------------------------- making nodes
def at(node: N, where: ast.AST) -> N:
    """`node` at the position of `where`."""
    return ast.copy_location(node, where)


def variable(where: ast.AST, name: str, context: ast.expr_context | None = None) -> ast.Name:
    return at(ast.Name(name, context or ast.Load()), where)


def constant(where: ast.AST, value: Any) -> ast.Constant:
    return at(ast.Constant(value), where)


def assignment(where: ast.AST, name: str, value: ast.expr) -> ast.stmt:
    return at(ast.Assign([variable(where, name, ast.Store())], value), where)


def delayed(body: ast.expr) -> ast.Lambda:
    """`lambda: body`, for what may not be evaluated."""
    return at(ast.Lambda(ast.arguments([], [], None, [], [], None, []), body), body)


def names_of(target: ast.expr | None) -> list[str]:
    """A flat list of the target's names; empty where one is not a plain name."""
    match target:
        case ast.Name():
            return [target.id]
        case ast.Tuple() | ast.List() if all(isinstance(e, ast.Name) for e in target.elts):
            return [e.id for e in target.elts if isinstance(e, ast.Name)]
    return []


def has_break(body: Sequence[ast.stmt]) -> bool:
    """True if a `break` of this loop itself is in `body`."""
    for stmt in body:
        if isinstance(stmt, ast.Break | ast.Return):
            return True
        if isinstance(stmt, ast.If | ast.With) and has_break([*stmt.body, *getattr(stmt, "orelse", [])]):
            return True
    return False


def function_def(name: str, args: ast.arguments, body: list[ast.stmt], where: ast.AST) -> ast.FunctionDef:
    """A `def` without decorators at the position of `where`, on every Python version."""
    node = ast.FunctionDef(name, args, body, [], None, None)
    if "type_params" in ast.FunctionDef._fields:  # Python 3.12
        node.type_params = []  # type: ignore[attr-defined,unused-ignore]  # unknown to 3.11
    return ast.copy_location(node, where)
