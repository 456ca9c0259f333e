"""What is compared: problems in groups, each with the ratio to reach.

>>> sum(p.group == "gemm_f16" for p in PROBLEMS)
12
"""

from __future__ import annotations

import math
from dataclasses import dataclass

KINDS = ("gemm", "scaled", "gemv", "attention", "softmax", "layernorm", "rmsnorm", "add", "gelu", "transpose")
COPY_BOUND = ("softmax", "layernorm", "rmsnorm", "add", "gelu", "transpose")
BYTES = {"float32": 4, "tfloat32": 4, "float16": 2, "bfloat16": 2, "int8": 1, "float8_e4m3fn": 1}
SUMMED_IN = {"int8": "int32"}
RESULT = {"int8": "int32", "float8_e4m3fn": "bfloat16", "tfloat32": "float32"}  # where it is not the type of the factors


@dataclass(frozen=True, slots=True)
class Problem:
    """One line of the table.

    `kind` names the function, `shape` its sizes: gemm and scaled (m, n, k), gemv (n, k), attention (batch, heads, seq, dim), rows (rows, cols).
    `floor` is the ratio to reach: the best peer's time over ours, or the share of copy bandwidth where `is_copy_bound`; `first` is the one that a
    first version has to reach, 0 for none. `is_fast`: sums of float8 are those of the matrix unit, on both sides; else both add up in float32.
    """

    group: str
    kind: str
    shape: tuple[int, ...]
    dtype: str
    floor: float
    first: float = 0.0
    is_nt: bool = False
    is_causal: bool = False
    kv_heads: int = 0
    is_fast: bool = False

    @property
    def name(self) -> str:
        words = ["x".join(map(str, self.shape)), *(["nt" if self.is_nt else "nn"] if self.kind == "gemm" else [])]
        words += [*(["causal"] if self.is_causal else []), *([f"kv {self.kv_heads}"] if self.kv_heads else []), *(["fast"] if self.is_fast else [])]
        short = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}.get(self.dtype, "")
        return " ".join([self.group, *words, *([short] if short and short not in self.group else [])])

    @property
    def out_dtype(self) -> str:
        """The result's element type."""
        return RESULT.get(self.dtype, self.dtype)

    @property
    def flops(self) -> int:
        """The textbook's operations: two for each product; 0 for row and elementwise kernels."""
        match self.kind:
            case "gemm" | "scaled" | "gemv":
                return 2 * math.prod(self.shape)
            case "attention":
                b, h, s, d = self.shape
                return 4 * b * h * s * s * d // (2 if self.is_causal else 1)
            case _:
                return 0

    @property
    def bytes(self) -> int:
        """Bytes that nobody can avoid to move: every input read once, every result written once."""
        size, out = BYTES[self.dtype], BYTES.get(self.out_dtype, 4)
        match self.kind:
            case "gemm" | "scaled":
                m, n, k = self.shape
                return size * (m * k + k * n) + out * m * n
            case "gemv":
                n, k = self.shape
                return size * (n * k + n + k)
            case "attention":
                b, h, s, d = self.shape
                return 2 * size * b * s * d * (h + (self.kv_heads or h))
            case "add":
                return 3 * size * self.shape[0]
            case _:
                return 2 * size * math.prod(self.shape)

    @property
    def is_copy_bound(self) -> bool:
        """Whether the floor is a share of the rate at which this GPU copies as many bytes, in the same run."""
        return self.kind in COPY_BOUND

    @property
    def is_counted_in_bytes(self) -> bool:
        """Whether the table gives bytes a second, not FLOP/s."""
        return self.is_copy_bound or self.kind == "gemv" or (self.kind == "gemm" and self.shape[0] <= 128)


FULL = ((1024,) * 3, (2048,) * 3, (4096,) * 3, (8192,) * 3, (4096, 28672, 8192), (8192, 4096, 14336))
AWKWARD = ((4097,) * 3, (4096, 4096, 4100), (1000, 3000, 5000))
LENGTHS = ((16, 16, 1024), (4, 16, 4096), (1, 16, 16384))  # batch, heads of 128, sequence: as many products in each row of 4096
MILLION = 1 << 20


def _first(shape: tuple[int, ...]) -> float:
    return 0.85 if shape in ((4096,) * 3, (8192,) * 3) else 0.0


def _attention(dim: int, dtype: str, kv: int = 0) -> list[Problem]:
    group = "attention_gqa" if kv else f"attention_d{dim}"
    sizes = [(b, h * 128 // dim, s, dim) for b, h, s in LENGTHS]
    first = 0.85 if dim == 128 and not kv else 0.0
    return [
        Problem(group, "attention", shape, dtype, 1.0, first if shape[2] == 4096 else 0.0, is_causal=causal, kv_heads=shape[1] // kv if kv else 0)
        for causal in (False, True)
        for shape in sizes
    ]


def _rows(dtype: str, shapes: tuple[tuple[int, int], ...]) -> list[Problem]:
    return [Problem(kind, kind, shape, dtype, 0.92, 0.85) for kind in ("softmax", "layernorm", "rmsnorm") for shape in shapes]


PROBLEMS: tuple[Problem, ...] = (
    *(Problem("gemm_f16", "gemm", shape, "float16", 0.97, _first(shape), is_nt=nt) for nt in (False, True) for shape in FULL),
    *(Problem("gemm_bf16", "gemm", shape, "bfloat16", 0.97, is_nt=nt) for nt in (False, True) for shape in FULL),
    *(Problem("gemm_fp8", "scaled", (n,) * 3, "float8_e4m3fn", 0.93, is_fast=fast) for fast in (False, True) for n in (4096, 8192)),
    *(Problem("gemm_int8", "gemm", (n,) * 3, "int8", 0.93, is_nt=True) for n in (4096, 8192)),
    *(Problem("gemm_tf32", "gemm", (n,) * 3, "tfloat32", 0.93, is_nt=True) for n in (4096, 8192)),
    Problem("skinny", "gemv", (8192, 8192), "bfloat16", 1.0),
    *(Problem("skinny", "gemm", (m, 8192, 8192), "bfloat16", 1.0, is_nt=True) for m in (16, 64, 128)),
    *(Problem("awkward", "gemm", shape, "float16", 2.0 if shape[0] == 4097 else 1.0) for shape in AWKWARD),
    *_attention(128, "bfloat16"), *_attention(128, "float16"), *_attention(64, "bfloat16"), *_attention(256, "bfloat16"),
    *_attention(128, "bfloat16", kv=4),
    *_rows("float32", ((65536, 1024), (16384, 4096), (4096, 16384))),
    *_rows("bfloat16", ((32768, 4096),)),
    *(Problem(kind, kind, (64 * MILLION,), "float32", 0.92, 0.85) for kind in ("add", "gelu")),
    *(Problem(kind, kind, (128 * MILLION,), "bfloat16", 0.92, 0.85) for kind in ("add", "gelu")),
    Problem("transpose", "transpose", (8192, 8192), "float32", 0.92, 0.85), Problem("transpose", "transpose", (16384, 8192), "bfloat16", 0.92, 0.85),
)  # fmt: skip
GROUPS = tuple(dict.fromkeys(p.group for p in PROBLEMS))
FIRST = "first"  # a group of its own: what a first version has to reach


def chosen(only: tuple[str, ...] | list[str]) -> list[int]:
    """The numbers of the problems of the groups `only`; all for none. "gemm" stands for all groups that begin so; "first" for a first version's.

    Raises: ValueError for a group that there is not.

    >>> [PROBLEMS[i].name for i in chosen(["gemm_fp8"])]
    ['gemm_fp8 4096x4096x4096', 'gemm_fp8 8192x8192x8192', 'gemm_fp8 4096x4096x4096 fast', 'gemm_fp8 8192x8192x8192 fast']
    """
    known = {FIRST, *GROUPS, *(g.partition("_")[0] for g in GROUPS)}
    if unknown := [g for g in only if g not in known]:
        raise ValueError(f"there is no group {unknown[0]!r}; the groups are {', '.join(GROUPS)}, and {FIRST}")
    return [i for i, p in enumerate(PROBLEMS) if not only or any(_is_in(p, g) for g in only)]


def _is_in(p: Problem, group: str) -> bool:
    return p.first > 0 if group == FIRST else group in (p.group, p.group.partition("_")[0])
