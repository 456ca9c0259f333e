"""Hardware instructions by name, and which thread holds which cell of their operands.

A matrix instruction is run by a warp (or a quarter of one, or four) together; no thread sees a whole operand. The tables come from `tensor_layouts`,
which has NVIDIA's from SM61 to SM120, AMD's, Intel's Xe and AMX. wgmma comes in every width: ask for the one you need.

>>> mma = atom("SM80_16x8x16_F32F16F16F32_TN")
>>> mma.shape, mma.instruction
((16, 8, 16), 'mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32')
>>> mma.c.at(8, 3)                       # row 8, column 3 of C: lane 1 holds it in its register 3
{'thread': 1, 'register': 3}
>>> atom("SM90_64x96x16_F32BF16BF16_SS").c.holders
128
>>> atom("AMX_16x16x32_F32BF16BF16F32").b.at(3, 1)["address"]   # rows of k come in pairs: (k, n) lies in row k // 2, at 2n + k % 2
70
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from tensor_layouts import CopyAtom, MMAAtom, atoms_amd, atoms_amx, atoms_nv, atoms_xe, cosize, size

from .algebra import Layout, Table, evaluate
from .tile_layout import SPANS, TileLayout, fragment, linear, swizzled

_MODULES = (atoms_nv, atoms_amd, atoms_xe, atoms_amx)
_TYPE = re.compile(r"(BF16|TF32|E\dM\d|[FSUC]\d+)")
_WGMMA = re.compile(r"SM90_64x(\d+)x(\d+)_(F16|F32|S32)(F16|BF16|TF32|E4M3|E5M2|S8|U8)(F16|BF16|TF32|E4M3|E5M2|S8|U8)_SS")


@dataclass(frozen=True, slots=True)
class Atom:
    """One instruction: `operands` are its tiles by name, A (M, K), B (K, N) and C (M, N) for a product, src and dst for a copy.

    `shape` is (M, N, K), or (rows, columns) of a copy. `instruction` is its mnemonic.
    """

    name: str
    instruction: str
    shape: tuple[int, ...]
    operands: tuple[tuple[str, TileLayout], ...]

    @property
    def a(self) -> TileLayout:
        """The left operand, (M, K). Raises KeyError for a copy."""
        return self["A"]

    @property
    def b(self) -> TileLayout:
        """The right operand, (K, N)."""
        return self["B"]

    @property
    def c(self) -> TileLayout:
        """The accumulator, (M, N)."""
        return self["C"]

    def __getitem__(self, operand: str) -> TileLayout:
        found = dict(self.operands)
        if operand not in found:
            raise KeyError(f"{self.name} has {', '.join(found)}, not {operand}")
        return found[operand]

    def __str__(self) -> str:
        return "\n".join([f"{self.name}: {self.instruction}", *(f"  {layout}" for _, layout in self.operands)])


@cache
def _table() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for module in _MODULES:
        for name in dir(module):
            value = getattr(module, name)
            if isinstance(value, CopyAtom) or (isinstance(value, MMAAtom) and _is_one_product(value)):
                found[name] = value
    return found


def _is_one_product(value: MMAAtom) -> bool:
    """False for instructions that do several small products at once (AMD's 4x4x4): an operand is not one tile."""
    m, n, k = value.shape_mnk
    return bool(size(value.c_layout) == m * n and cosize(value.a_layout) <= m * k and cosize(value.b_layout) <= n * k)


def atom_names(contains: str = "") -> tuple[str, ...]:
    """The instructions there are, or those whose name contains a text, case aside. wgmma's of other widths can be had too.

    >>> atom_names("ldsm_n")
    ('SM75_U32x1_LDSM_N', 'SM75_U32x2_LDSM_N', 'SM75_U32x4_LDSM_N')
    """
    return tuple(sorted(name for name in _table() if contains.lower() in name.lower()))


@cache
def atom(name: str) -> Atom:
    """The instruction called `name`. Raises KeyError with the nearest names for another."""
    found = _table().get(name)
    if found is None and (match := _WGMMA.fullmatch(name)):
        found = _wgmma(match)
    if found is None:
        raise KeyError(f"no atom is called {name!r}{_did_you_mean(name)}; atom_names() lists {len(_table())}")
    return _copy(name, found) if isinstance(found, CopyAtom) else _product(name, found)


def _did_you_mean(name: str) -> str:
    upper = {known.upper(): known for known in _table()}
    near = [upper[x] for x in difflib.get_close_matches(name.upper(), upper, n=3, cutoff=0.6)]
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _wgmma(match: re.Match[str]) -> Any:
    n, k, d, a, b = int(match[1]), int(match[2]), match[3], match[4], match[5]
    depth = 256 // _bits(a)  # every wgmma takes 32 bytes of k
    if k != depth or a != b or n % 8 or not 8 <= n <= 256:
        return None
    return atoms_nv.make_gmma_atom_ss(n, k, d, a)


def _bits(kind: str) -> int:
    """Bits that one number takes in a register file: "TF32" 32, "E4M3" 8, "C64" (complex double) 128."""
    if kind.startswith("E"):
        return 8
    count = int(kind.lstrip("ABCDEFSTU"))
    return 2 * count if kind.startswith("C") else count


def _operand_bits(name: str) -> tuple[int, int, int]:
    """Bits of C, A and B from the types in the name, the result first; 16 where the name does not say."""
    kinds = [_bits(k) for k in _TYPE.findall("_".join(name.split("_")[2:]))]
    kinds += [kinds[-1] if kinds else 16] * (3 - len(kinds))
    return kinds[0], kinds[1], kinds[2]


def _product(name: str, found: Any) -> Atom:
    m, n, k = found.shape_mnk
    c_bits, a_bits, b_bits = _operand_bits(name)
    if name.startswith("AMX"):
        return _amx(name, found, c_bits, a_bits)
    where = found.thr_id
    shapes = (("A", m, k, a_bits, found.a_layout, False), ("B", k, n, b_bits, found.b_layout, True), ("C", m, n, c_bits, found.c_layout, False))
    operands = []
    for label, rows, columns, bits, held, by_rows in shapes:
        if _is_shared(held):
            tile = _descriptor(rows, columns, bits, label, transposed=by_rows)
        else:
            tile = fragment(rows, columns, held, bits=bits, name=label, threads=where, by_rows=by_rows)
        operands.append((label, tile))
    return Atom(name, found.ptx, (m, n, k), tuple(operands))


def _is_shared(held: Any) -> bool:
    """An operand that all threads name by a descriptor: it is read from shared memory, so the thread does not matter."""
    threads = held.shape[0] if isinstance(held.shape, tuple) else 1
    return isinstance(threads, int) and threads > 1 and held.stride[0] == 0


def _descriptor(rows: int, columns: int, bits: int, label: str, *, transposed: bool) -> TileLayout:
    """An operand in shared memory, K along its rows: the piece of 32 bytes of k that one instruction reads, in the widest swizzle's tile."""
    note = "in shared memory, named by a descriptor"
    if transposed:
        down = linear(columns, rows, bits=bits)
        place = Table.of(evaluate(down.place, np.arange(columns)[:, None], np.arange(rows)[None, :]).T)
        return TileLayout(label, rows, columns, bits, place, note=note)
    row_bytes = columns * bits // 8
    tile = swizzled(rows, columns, bits=bits) if row_bytes in SPANS else linear(rows, columns, bits=bits)
    return tile.renamed(label, note)


def _amx(name: str, found: Any, c_bits: int, ab_bits: int) -> Atom:
    """Intel's tile registers: 16 rows of 64 bytes. B holds 4 bytes of neighbouring k together, so that a row is whole 32-bit lanes.

    Source: Intel Architecture Instruction Set Extensions Programming Reference, chapter 3, TDPBF16PS and TDPBSSD.
    """
    m, n, k = found.shape_mnk
    group = 32 // ab_bits
    b_place = Layout(((group, k // group), n), ((1, n * group), group))

    def tile(label: str, rows: int, columns: int, bits: int, place: Any) -> TileLayout:
        per_row = 512 // bits
        offsets = evaluate(place, np.arange(rows)[:, None], np.arange(columns)[None, :])
        owner, slot = Table.of(offsets * bits // 32 % 16), Table.of(offsets // per_row)
        return TileLayout(
            label, rows, columns, bits, place, owner=owner, slot=slot, owner_name="lane", slot_name="tile row", note="one tile register"
        )

    operands = (
        ("A", tile("A", m, k, ab_bits, Layout((m, k), (k, 1)))),
        ("B", tile("B", k, n, ab_bits, b_place)),
        ("C", tile("C", m, n, c_bits, Layout((m, n), (n, 1)))),
    )
    return Atom(name, found.ptx, (m, n, k), operands)


def _copy(name: str, found: Any) -> Atom:
    """A copy: both sides as rows of cells. The library counts bits; a cell is the smallest piece that stays whole."""
    cell, row = (16, 128) if "LDSM" in name or "STSM" in name else (32, 64) if "Shuffle" in name else (8, 128)
    operands = []
    for label, held in (("src", found.src_layout_bits), ("dst", found.dst_layout_bits)):
        threads, values = _sizes(held)
        t, v = np.meshgrid(np.arange(threads), np.arange(0, values, cell), indexing="ij")
        cells = evaluate(held, t, v) // cell
        total = int(cells.max()) + 1
        owners, slots = np.full((2, total), -1, dtype=np.int64)
        order = np.argsort(t.ravel(), kind="stable")[::-1]
        owners[cells.ravel()[order]] = t.ravel()[order]
        slots[cells.ravel()[order]] = (v.ravel() // 32)[order]
        columns = min(row // cell, total)
        tables = [Table.of(x.reshape(total // columns, columns)) for x in (owners, slots)]
        operands.append((label, TileLayout(label, total // columns, columns, cell, owner=tables[0], slot=tables[1])))
    return Atom(name, found.ptx, operands[0][1].shape, tuple(operands))


def _sizes(layout: Any) -> tuple[int, int]:
    """Threads and values of a two-mode layout."""
    counts = [int(np.prod(np.array(_flat(mode)))) for mode in layout.shape]
    return counts[0], counts[1]


def _flat(shape: Any) -> list[int]:
    return [x for part in shape for x in _flat(part)] if isinstance(shape, tuple) else [int(shape)]
