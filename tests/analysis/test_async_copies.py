"""How many bytes of a copy move at a time, and why some cannot move by themselves."""

from __future__ import annotations

import pytest

from tileworkbench.analysis.async_copies import async_copy
from tileworkbench.analysis.bounds import Bounds
from tileworkbench.base.dtypes import DType
from tileworkbench.ir.build import add, index, mul
from tileworkbench.ir.expr import Buffer, Expr, Var
from tileworkbench.ir.stmt import Copy, Region, whole

K, M = Var("k"), Var("m")


def tile(kind: str, *shape: int) -> Buffer:
    return Buffer("tile", tuple(index(n) for n in shape), DType(kind), "shared")


def array(kind: str, *shape: int | Var, **more: object) -> Buffer:
    return Buffer("A", tuple(index(n) if isinstance(n, int) else n for n in shape), DType(kind), **more)  # type: ignore[arg-type]


def copy(src: Buffer, dst: Buffer, *starts: Expr) -> Copy:
    lead = (index(1),) * (src.rank - dst.rank)
    return Copy(Region(src, starts, (*lead, *dst.shape)), whole(dst))


def bounds() -> Bounds:
    known = Bounds()
    known.bind_dim(M)
    known.bind(K, index(0), index(4))
    return known


CASES = {
    "rows of 128 bytes": (copy(array("float16", 64, 64), tile("float16", 16, 32), mul(K, index(16)), mul(K, index(32))), 16),
    "rows that begin at 8 bytes": (copy(array("float16", 64, 12), tile("float16", 16, 12), mul(K, index(16)), index(0)), 8),
    "rows that begin at 4 bytes": (copy(array("float16", 64, 66), tile("float16", 16, 64), index(0), index(0)), 4),
    "a column that begins at 8 bytes": (copy(array("float16", 64, 64), tile("float16", 16, 32), index(0), add(mul(K, index(8)), index(4))), 8),
    "any row": (copy(array("float16", M, 64), tile("float16", 16, 64), add(mul(K, M), index(3)), index(0)), 16),
    "a batch of any size": (copy(array("float16", 3, M, 64), tile("float16", 16, 64), K, index(0), index(0)), 16),
    "a tile narrower than a piece": (copy(array("float16", 64, 64), tile("float16", 16, 4), index(0), index(0)), 8),
    "a ragged end at a piece": (copy(array("float32", 100), tile("float32", 16), mul(K, index(32))), 16),
    "a ragged end within a piece": (copy(array("float32", 101), tile("float32", 32), mul(K, index(32))), 4),
    "an end that is never reached": (copy(array("float32", 131), tile("float32", 32), mul(K, index(32))), 16),
    "one column of many": (copy(array("float32", 64, 64), tile("float32", 16), index(0), index(0)), 16),
}


@pytest.mark.parametrize("name", CASES)
def test_bytes_of_a_piece(name: str) -> None:
    stmt, piece = CASES[name]
    assert async_copy(stmt, bounds()).bytes == piece


def test_arrays_that_begin_anywhere_move_by_elements() -> None:
    assert async_copy(CASES["a ragged end at a piece"][0], bounds(), aligned=False).bytes == 4
    assert async_copy(CASES["rows of 128 bytes"][0], bounds(), aligned=False).bytes == 0


WHY_NOT = {
    "do not certainly begin": copy(array("float16", 64, 65), tile("float16", 16, 32), index(0), index(0)),
    "or end within one": copy(array("float16", 64, M), tile("float16", 16, 32), index(0), index(0)),
    "are not neighbours": Copy(Region(array("float32", 64, 64), (index(0), index(0)), (index(16), index(1))), whole(tile("float32", 1, 16))),
    "converts float16 to float32": copy(array("float16", 64, 64), tile("float32", 16, 32), index(0), index(0)),
    "share bytes": copy(array("int4", 64, 64), tile("int4", 16, 32), index(0), index(0)),
    "become 1, not 0": copy(array("float32", 64, 64, safe_value=1), tile("float32", 16, 32), index(0), index(0)),
    "not known beforehand": Copy(Region(array("float32", 64), (index(0),), (M,)), Region(tile("float32", 64), (index(0),), (M,))),
    "a part of": Copy(Region(array("float32", 64), (index(0),), (index(16),)), Region(tile("float32", 64), (index(0),), (index(16),))),
    "views of other buffers": copy(array("float32", 64, view_of=array("float32", 8, 8)), tile("float32", 16), index(0)),
}


@pytest.mark.parametrize("why", WHY_NOT)
def test_what_cannot(why: str) -> None:
    found = async_copy(WHY_NOT[why], bounds())
    assert found.bytes == 0 and why in found.why
