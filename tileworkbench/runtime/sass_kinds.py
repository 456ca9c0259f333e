"""What kind of work an instruction of a GPU does, by its name in the machine code.

>>> kind_of("    HGMMA.64x256x16.F32 R24, gdesc[UR4], R24"), kind_of("    @!P0 UTMALDG.2D [UR8], [UR6]")
('tensor', 'global')
>>> kind_of("    LDS.128 R4, [R2]"), kind_of("    FFMA R0, R1, R2, R0"), kind_of("    BRA `(.L_x_1)"), kind_of(".L_x_1:")
('shared', 'float', 'other', '')
"""

from __future__ import annotations

from collections.abc import Iterable

from .stages import Stage, key_of

TENSOR, SHARED, GLOBAL, LOCAL, SYNC, FLOAT, OTHER = "tensor", "shared", "global", "local", "sync", "float", "other"
KINDS = (TENSOR, SHARED, GLOBAL, LOCAL, SYNC, FLOAT, OTHER)
# Source: NVIDIA, "CUDA Binary Utilities" 13.0, instruction set reference (Ampere to Hopper). "local" is the stack, where spilt registers go;
# what waits or hands values from thread to thread is "sync"; integers, addresses, branches and moves are "other".
_NAMES = {
    TENSOR: "HGMMA QGMMA IGMMA BGMMA HMMA IMMA DMMA QMMA BMMA",
    SHARED: "LDS LDSM STS STSM ATOMS MOVM",
    GLOBAL: "LDG STG LD ST LDGSTS UTMALDG UTMASTG UTMAREDG UBLKCP UBLKRED ATOM ATOMG RED REDG",
    LOCAL: "LDL STL",
    SYNC: "BAR SYNCS WARPGROUP WARPSYNC DEPBAR LDGDEPBAR ARRIVES FENCE MEMBAR UTMACMDFLUSH SHFL VOTE VOTEU MATCH REDUX UCGABAR_ARV UCGABAR_WAIT",
    FLOAT: "FFMA FADD FMUL FMNMX FSET FSETP FSEL FCHK MUFU HFMA2 HADD2 HMUL2 HMNMX2 HSET2 HSETP2 DFMA DADD DMUL DSETP F2F F2FP F2I I2F I2FP FRND",
}  # fmt: skip
GROUP_PRODUCTS = ("HGMMA", "QGMMA", "IGMMA", "BGMMA")  # of a warp group: wgmma
_KIND = {name: kind for kind, names in _NAMES.items() for name in names.split()}


def name_of(row: str) -> str:
    """The instruction of a line of machine code without its predicate and its suffixes; "" for a label."""
    words = row.split()
    if not row[:1].isspace() or not words:
        return ""
    word = words[1] if words[0].startswith("@") and len(words) > 1 else words[0]
    return word.partition(".")[0]


def kind_of(row: str) -> str:
    """The kind of a line's instruction; "" for a label."""
    name = name_of(row)
    return _KIND.get(name, OTHER) if name else ""


def kinds_of(rows: Iterable[str]) -> dict[str, int]:
    """How many instructions there are of each kind, in the order of `KINDS`; kinds without one are absent."""
    found = [kind_of(row) for row in rows]
    return {kind: found.count(kind) for kind in KINDS if kind in found}


def kinds_by_line(stage: Stage) -> dict[str, dict[str, int]]:
    """The instructions of a stage of machine code by the author's line ("gemm.py:54") and kind; "" has those of no line.

    Each counts once, as it stands in the text, however often it runs; one that several lines share counts for the first of them.
    """
    rows: dict[str, list[str]] = {}
    for number, row in enumerate(stage.lines, 1):
        spans = stage.twins.get(number, ())
        rows.setdefault(key_of(spans[0]) if spans else "", []).append(row)
    return {key: found for key, own in rows.items() if (found := kinds_of(own))}


def told(kinds: dict[str, int]) -> str:
    """Kinds in words.

    >>> told({"tensor": 4, "other": 50})
    '4 tensor, 50 other'
    """
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items())
