"""Write a layout into the author's text: `T.annotate_layout({...})` behind the allocation of the tile, or in place of what is asked for it there.

>>> cell = '''def f(A):
...     with T.Kernel(1) as bx:
...         t = T.alloc_shared((32, 32), "float32")
...         T.copy(A, t)
... '''
>>> print(with_layout(cell, "t", "T.annotate_layout({t: T.Layout((32, 32), lambda i, j: i * 33 + j)})"))
def f(A):
    with T.Kernel(1) as bx:
        t = T.alloc_shared((32, 32), "float32")
        T.annotate_layout({t: T.Layout((32, 32), lambda i, j: i * 33 + j)})
        T.copy(A, t)
<BLANKLINE>
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from ..base.errors import TileValueError
from ..base.text_edits import edited, without_magic

_SHARED = ("alloc_shared",)
_MAKERS = "tileworkbench.layout"


class _Place(NamedTuple):
    """An allocation: the statement, the function around it, and how the words are called there ("T")."""

    stmt: ast.Assign | ast.AnnAssign
    around: ast.AST
    words: str


def with_layout(source: str, buffer: str, annotation: str, line: int = 0) -> str:
    """`source`, the text of a cell or a file, with `annotation` (what `Found.annotation` says) for the shared tile `buffer`.

    Args:
        line: where the tile is allocated, counted as in `source`; needed only where several kernels of the text have a tile of that name.
    Raises: TileValueError where the place cannot be found, with what to do.
    """
    head, body = without_magic(source)
    try:
        tree = ast.parse(body)
    except SyntaxError:
        raise TileValueError("this text is not Python alone, so the layout cannot be written into it", hint=f"paste it: {annotation}") from None
    place = _choose(list(_places(tree, buffer)), buffer, line - head.count("\n") if line else 0, annotation)
    wanted = _value(annotation)
    asked = _asked(place.around, buffer)
    text = ast.get_source_segment(annotation, wanted) or ""
    text = place.words + text[2:] if text.startswith("T.") else text
    if asked is not None:
        made = edited(body, [(asked, text)])
    else:
        made = _below(body, place.stmt, f"{place.words}annotate_layout({{{buffer}: {text}}})", annotation)
    return head + _with_import(made, wanted)


def _places(tree: ast.AST, buffer: str, around: ast.AST | None = None) -> Iterator[_Place]:
    for node in ast.iter_child_nodes(tree):
        inside = node if isinstance(node, ast.FunctionDef) else around or tree
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and _binds(node, buffer):
            for call in (n for n in ast.walk(node.value) if isinstance(n, ast.Call)):
                match call.func:
                    case ast.Attribute(value=ast.Name(id=words), attr=attr) if attr in _SHARED:
                        yield _Place(node, inside, f"{words}.")
                        break
                    case ast.Name(id=name) if name in _SHARED:
                        yield _Place(node, inside, "")
                        break
        yield from _places(node, buffer, inside)


def _binds(node: ast.Assign | ast.AnnAssign, buffer: str) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(n, ast.Name) and n.id == buffer for target in targets for n in ast.walk(target))


def _choose(found: list[_Place], buffer: str, line: int, annotation: str) -> _Place:
    here = [p for p in found if p.stmt.lineno <= line <= (p.stmt.end_lineno or line)] or found
    if not here:
        raise TileValueError(f"no line here reads {buffer} = T.alloc_shared(...)", hint=f"paste it behind the allocation: {annotation}")
    if len(here) > 1:
        lines = ", ".join(str(p.stmt.lineno) for p in here)
        raise TileValueError(f"{buffer} is allocated on lines {lines}", hint="say which of them: line=...")
    return here[0]


def _value(annotation: str) -> ast.expr:
    """The layout of an annotation of one tile."""
    match ast.parse(annotation, mode="eval").body:
        case ast.Call(args=[ast.Dict(values=[value])]):
            return value
        case _:
            raise TileValueError(f"{annotation} is no T.annotate_layout of one tile", hint="T.annotate_layout({t: layout})")


def _asked(around: ast.AST, buffer: str) -> ast.expr | None:
    """What the function asks for the tile already."""
    for call in (n for n in ast.walk(around) if isinstance(n, ast.Call)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name == "annotate_layout" and call.args and isinstance(call.args[0], ast.Dict):
            for key, value in zip(call.args[0].keys, call.args[0].values, strict=True):
                if isinstance(key, ast.Name) and key.id == buffer:
                    return value
    return None


def _below(body: str, stmt: ast.stmt, line: str, annotation: str) -> str:
    """A new line behind the statement, as far in as that begins."""
    lines = body.splitlines(keepends=True)
    first, last = lines[stmt.lineno - 1], (stmt.end_lineno or stmt.lineno) - 1
    indent = first[: len(first) - len(first.lstrip())]
    if first.encode()[: stmt.col_offset].strip():
        raise TileValueError("the allocation shares its line with what stands before it", hint=f"give it a line of its own, or paste: {annotation}")
    end = "" if lines[last].endswith("\n") else "\n"
    return "".join([*lines[: last + 1], f"{end}{indent}{line}\n", *lines[last + 1 :]])


def _with_import(body: str, value: ast.expr) -> str:
    """The text with the maker of a swizzle brought in, if the text has not got it."""
    match value:
        case ast.Call(func=ast.Name(id=name)) if not any(name in _bound(node) for node in ast.walk(ast.parse(body))):
            return f"from {_MAKERS} import {name}\n{body}"
        case _:
            return body


def _bound(node: ast.AST) -> list[str]:
    return [alias.asname or alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
