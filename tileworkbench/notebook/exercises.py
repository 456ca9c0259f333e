"""The lessons' exercises, by name: `exercise("attention.causal")`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.errors import TileValueError
from .amount import BYTES, FLOP, Amount
from .exercise import Exercise, Goal

Array = np.ndarray[Any, Any]
SEQ, DIM = 256, 32
BLOCK = 32  # queries and keys of a tile in the attention exercises


def exercise(name: str) -> Exercise:
    """The exercise called `name`, as new. Raises TileValueError with the names there are."""
    make = _ALL.get(name)
    if make is None:
        raise TileValueError(f"no exercise is called {name!r}", hint=f"there are {', '.join(_ALL)}")
    return make()


def names() -> tuple[str, ...]:
    """Every exercise."""
    return tuple(_ALL)


# ---------------------------------------------------------------------------------------------- references
def attention_reference(Q: Array, K: Array, V: Array, *, causal: bool = False, window: int = 0) -> Array:
    """softmax(Q K^T / sqrt(dim)) V of (seq, dim) arrays; with `window`, a query sees itself and the window - 1 keys before it."""
    scores = Q @ K.T / np.sqrt(Q.shape[1])
    rows, columns = np.arange(len(Q))[:, None], np.arange(len(K))[None, :]
    seen = np.ones(scores.shape, dtype=bool)
    if causal or window:
        seen &= columns <= rows
    if window:
        seen &= columns > rows - window
    scores = np.where(seen, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True) @ V)


def attention_inputs(seq: int = SEQ, dim: int = DIM, seed: int = 0) -> tuple[Array, Array, Array]:
    """Q, K and V, (seq, dim) float32, the same for the same seed."""
    rng = np.random.default_rng(seed)
    q, k, v = (rng.standard_normal((seq, dim)).astype(np.float32) for _ in range(3))
    return q, k, v


def asked_by_tiles(seq: int, dim: int, block_m: int, block_n: int, *, causal: bool = False) -> int:
    """Bytes that a tiled kernel asks of Q, K, V and O: Q and O once, K and V once for each block of queries, above the diagonal not at all."""
    pairs = sum(-(-min(first + block_m, seq) // block_n) if causal else seq // block_n for first in range(0, seq, block_m))
    return 4 * dim * (2 * seq + 2 * block_n * pairs)


# ---------------------------------------------------------------------------------------------- the exercises
def _row_sums() -> Exercise:
    return Exercise(
        "roofline.reuse",
        "Write row_stats(X): of each row of X (1024 x 512, float32) the sum and the sum of squares, as one array of shape (1024, 2).",
        lambda: (np.random.default_rng(0).standard_normal((1024, 512)).astype(np.float32),),
        lambda X: np.stack([X.sum(axis=1), (X * X).sum(axis=1)], axis=1),
        (Goal("global.bytes <= 1.01*compulsory", "X is read once, not once for each sum"),),
        (
            "Bring a tile of rows on chip once, and compute both sums from it.",
            "A second tile can hold the squares: `for i, j in T.Parallel(BM, 512): y[i, j] = x[i, j] * x[i, j]`.",
            "T.reduce_sum(x, s, dim=1) and T.reduce_sum(y, q, dim=1), then store s[i] and q[i] in a T.Parallel loop over the rows.",
        ),
    )


def _causal() -> Exercise:
    whole, least = asked_by_tiles(SEQ, DIM, BLOCK, BLOCK), asked_by_tiles(SEQ, DIM, BLOCK, BLOCK, causal=True)
    return Exercise(
        "attention.causal",
        f"Query i may only see keys 0..i. Mask the scores, and do not even read tiles that no query of the block sees ({BLOCK} x {BLOCK} tiles).",
        attention_inputs,
        lambda Q, K, V: attention_reference(Q, K, V, causal=True),
        (
            Goal("global.bytes <= 1.01*skipping.bytes", f"no key tile above the diagonal is read ({whole / least:.2f} times fewer bytes)"),
            Goal("flops <= 0.65*full.flops", "their products are not computed either"),
        ),
        (
            "Masking: s[i, j] = T.if_then_else(k * BN + j <= bx * BM + i, s[i, j], -T.infinity('float32')), after the first gemm.",
            "The walk of block bx may end at the diagonal: its last query is bx * BM + BM - 1.",
            "for k in T.serial(T.ceildiv((bx + 1) * BM, BN)): the number of key tiles now depends on the block.",
        ),
        facts={"skipping.bytes": Amount(least, BYTES), "full.flops": Amount(4 * SEQ * SEQ * DIM, FLOP)},
    )


def _window() -> Exercise:
    window = 64
    tiles = sum(min(first // BLOCK + 1, window // BLOCK + 1) for first in range(0, SEQ, BLOCK))
    least = 4 * DIM * (2 * SEQ + 2 * BLOCK * tiles)
    return Exercise(
        "attention.window",
        f"Sliding window: query i sees keys i-{window - 1}..i only. Bytes should grow with seq, no longer with its square.",
        attention_inputs,
        lambda Q, K, V: attention_reference(Q, K, V, window=window),
        (Goal("global.bytes <= 1.01*window.bytes", "each block reads the tiles of its window only"),),
        (
            f"The walk starts at T.max(0, bx * BM - {window}) // BN instead of 0.",
            "T.Pipelined and T.serial take a start and a stop.",
            "A first tile can be masked whole for some rows: their maximum stays -inf, and -inf - -inf is NaN. Start m at -1e30 instead.",
        ),
        facts={"window.bytes": Amount(least, BYTES)},
    )


_ALL: dict[str, Callable[[], Exercise]] = {"roofline.reuse": _row_sums, "attention.causal": _causal, "attention.window": _window}
