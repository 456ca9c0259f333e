"""The base of every IR node, and the three generic tools: children, walk, rewrite.

Nodes are frozen dataclasses whose fields hold nodes, tuples of nodes, or plain values. The tools find children from the
fields, so a new node needs no code here. `rewrite` keeps identity: an unchanged subtree is the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from functools import cache
from operator import attrgetter, is_
from typing import Any, ClassVar, TypeVar

from ..base.span import Span

N = TypeVar("N", bound="Node")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A piece of a kernel. `span` says where it was written; it takes no part in equality.

    A node whose class sets `is_symbol` is a name (a `Buffer`): the tools below do not look inside it.
    """

    is_symbol: ClassVar[bool] = False
    span: Span | None = field(default=None, compare=False, repr=False)


# fields of these types hold no nodes
_PLAIN = frozenset((
    "str", "int", "bool", "DType", "int | None", "int | float | bool", "int | float | None",
    "tuple[int, ...]", "tuple[int, int]", "tuple[int, int, int]", "tuple[str, ...]", "tuple[tuple[str, str], ...]",
))  # fmt: skip
# fields of these types always hold one node, those of the others one, none or a tuple
_ONE = frozenset(("Expr", "Buffer", "Region", "Var", "Address"))


class _Slots(dict[type[Node], tuple[str, ...]]):
    """For each class of nodes, the fields that may hold nodes."""

    def __missing__(self, kind: type[Node]) -> tuple[str, ...]:
        names = () if kind.is_symbol else tuple(f.name for f in fields(kind) if f.name != "span" and f.type not in _PLAIN)
        self[kind] = names
        return names


class _Below(dict[type[Node], Callable[[Any], tuple[Node, ...]] | None]):
    """For each class of nodes that holds two or more of them and nothing else, how to get them, the last one first."""

    def __missing__(self, kind: type[Node]) -> Callable[[Any], tuple[Node, ...]] | None:
        names = _node_slots[kind]
        types = {f.name: f.type for f in fields(kind)}
        get = attrgetter(*reversed(names)) if len(names) > 1 and all(types[name] in _ONE for name in names) else None
        self[kind] = get
        return get


_node_slots, _nodes_below = _Slots(), _Below()


@cache
def _slots(kind: Any) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind) if f.name != "span")


def children(node: Node) -> list[Node]:
    """The nodes directly below `node`, in field order."""
    below: list[Node] = []
    for name in _node_slots[node.__class__]:
        value = getattr(node, name)
        if value.__class__ is tuple:
            below += [item for item in value if isinstance(item, Node)]
        elif isinstance(value, Node):
            below.append(value)
    return below


def walk(node: Node) -> Iterator[Node]:
    """`node` and everything below it, parents first, in program order."""
    stack, slots, getters = [node], _node_slots, _nodes_below
    while stack:
        top = stack.pop()
        yield top
        kind = top.__class__
        names = slots[kind]
        if not names:
            continue
        get = getters[kind]
        if get is not None:
            stack += get(top)
            continue
        for name in reversed(names):  # `children`, written out: most of the passes' time is spent here
            value = getattr(top, name)
            if value.__class__ is tuple:
                stack += [item for item in reversed(value) if isinstance(item, Node)]
            elif isinstance(value, Node):
                stack.append(value)


def rewrite(node: N, change: Callable[[Node], Node | tuple[Node, ...] | None]) -> N:
    """Apply `change` to every node, children first, and return the new tree.

    `change(node)` returns the node itself for "unchanged", another node, or (for a statement in a body) a tuple of
    statements to put in its place; `None` and `()` remove it.
    """
    slots = _node_slots

    def at(node: Node) -> Any:
        return change(map_children(node, at) if slots[node.__class__] else node)

    result = at(node)
    if not isinstance(result, Node):
        raise TypeError(f"the root {type(node).__name__} cannot become {result!r}")
    return result  # type: ignore[return-value]  # a root keeps its role


def map_children(node: N, change: Callable[[Node], Any]) -> N:
    """`node` with `change` applied to each direct child; `node` itself if none changed."""
    updates: dict[str, Any] | None = None
    for name in _node_slots[node.__class__]:
        value = getattr(node, name)
        if value.__class__ is tuple:
            new = _map_tuple(value, change) if value else value
        elif isinstance(value, Node):
            new = change(value)
        else:
            continue
        if new is not value:
            if updates is None:
                updates = {}
            updates[name] = new
    return node if updates is None else replace(node, **updates)


def _map_tuple(value: tuple[Any, ...], change: Callable[[Node], Any]) -> tuple[Any, ...]:
    made = [change(item) if isinstance(item, Node) else item for item in value]
    if all(map(is_, made, value)):
        return value
    out: list[Any] = []
    for new in made:
        if new.__class__ is tuple:
            out.extend(new)
        elif new is not None:
            out.append(new)
    return tuple(out)


def replace(node: N, **updates: Any) -> N:
    """A copy of `node` with some fields replaced; the span is kept."""
    kind: Any = node.__class__
    values = {name: getattr(node, name) for name in _slots(kind)}
    values["span"] = node.span
    values.update(updates)
    made: N = kind(**values)
    return made
