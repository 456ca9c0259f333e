"""What is compared: problems in groups, each with the ratio to reach over the best peer.

>>> sum(p.group == "gemm_f32" for p in PROBLEMS)
6
"""

from __future__ import annotations

import math
from dataclasses import dataclass

SCALE_COLUMNS = 128  # columns that share a scale of four-bit weights
KINDS = ("gemm", "gemv", "w4", "attention", "softmax", "layernorm", "rmsnorm", "add", "gelu", "transpose")


@dataclass(frozen=True, slots=True)
class Problem:
    """One line of the table.

    `kind` names the function, `shape` its sizes: gemm (m, n, k), gemv (n, k), w4 (m, n, k), attention (batch, heads, seq, dim), rows (rows, cols).
    `floor` is the ratio to reach, ours over the best peer; where `is_copy_bound`, the share of this machine's copy bandwidth instead.
    """

    group: str
    kind: str
    shape: tuple[int, ...]
    dtype: str
    threads: int
    floor: float
    is_causal: bool = False

    @property
    def name(self) -> str:
        return f"{self.group} {'x'.join(map(str, self.shape))}{' causal' if self.is_causal else ''}"

    @property
    def flops(self) -> int:
        """The textbook's operations: two for each product; 0 for row and elementwise kernels."""
        match self.kind:
            case "gemm" | "w4":
                m, n, k = self.shape
                return 2 * m * n * k
            case "gemv":
                return 2 * self.shape[0] * self.shape[1]
            case "attention":
                b, h, s, d = self.shape
                return 4 * b * h * s * s * d // (2 if self.is_causal else 1)
            case _:
                return 0

    @property
    def is_copy_bound(self) -> bool:
        """Whether the floor is a share of the rate at which this machine copies as much data, in the same rounds."""
        return self.kind in ("add", "gelu", "transpose")

    @property
    def is_counted_in_bytes(self) -> bool:
        """Whether the table gives bytes a second, not FLOP/s."""
        return self.kind not in ("gemm", "attention") and not (self.kind == "w4" and self.shape[0] > 1)

    @property
    def bytes(self) -> int:
        """Bytes that nobody can avoid to move: every input read once, every result written once."""
        size = {"float32": 4, "bfloat16": 2, "int8": 1}[self.dtype]
        match self.kind:
            case "gemm":
                m, n, k = self.shape
                return size * (m * k + k * n) + (4 if self.dtype == "int8" else size) * m * n
            case "gemv":
                n, k = self.shape
                return size * (n * k + n + k)
            case "w4":
                m, n, k = self.shape
                return n * k // 2 + 4 * n * k // SCALE_COLUMNS + size * m * (n + k)
            case "attention":
                return 4 * size * math.prod(self.shape)
            case "add":
                return 3 * size * self.shape[0]
            case _:
                return 2 * size * math.prod(self.shape)


def _cubes(group: str, dtype: str, floor: float, threads: tuple[int, ...] = (1,), extra: tuple[tuple[int, ...], ...] = ()) -> list[Problem]:
    shapes = [(n, n, n) for n in (512, 1024, 2048)]
    return [Problem(group, "gemm", shape, dtype, t, floor) for t in threads for shape in [*shapes, *extra]]


def _attention(group: str, dtype: str, floor: float) -> list[Problem]:
    sizes = [(1, 8, seq, dim) for dim in (64, 128) for seq in (512, 1024, 2048)]
    return [Problem(group, "attention", shape, dtype, 1, floor, causal) for causal in (False, True) for shape in sizes]


SKINNY = ((16, 4096, 4096), (128, 4096, 4096), (128, 11008, 4096))
WEIGHTS = ((4096, 4096), (11008, 4096), (4096, 11008))
ROWS = ((4096, 1024), (4096, 4096), (1024, 16384))
MILLION = 1 << 20

PROBLEMS: tuple[Problem, ...] = (
    *_cubes("gemm_f32", "float32", 1.0, threads=(1, 2)),
    *(Problem("gemm_f32_skinny", "gemm", shape, "float32", 1, 1.0) for shape in SKINNY),
    *(Problem("gemv_f32", "gemv", shape, "float32", 1, 1.0) for shape in WEIGHTS),
    *(Problem("gemv_bf16", "gemv", shape, "bfloat16", 1, 1.5) for shape in WEIGHTS),
    *_cubes("gemm_bf16", "bfloat16", 1.0, extra=((128, 4096, 4096),)),
    *_cubes("gemm_int8", "int8", 1.2),
    *(Problem("gemm_w4", "w4", (m, 4096, 4096), "float32", 1, 3.0 if m == 1 else 1.0) for m in (1, 16)),
    *_attention("attention_f32", "float32", 1.05),
    *_attention("attention_bf16", "bfloat16", 1.0),
    *(Problem(kind, kind, shape, "float32", 1, 1.2) for kind in ("softmax", "layernorm", "rmsnorm") for shape in ROWS),
    *(Problem(kind, kind, (16 * MILLION,), "float32", 1, 0.95) for kind in ("add", "gelu")),
    Problem("transpose", "transpose", (4096, 4096), "float32", 1, 0.95),
)
GROUPS = tuple(dict.fromkeys(p.group for p in PROBLEMS))
