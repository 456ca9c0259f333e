"""Copies, fills, products, reductions, scans and views: the IR they give, and what wrong ones are told."""

from __future__ import annotations

import pytest
from frontend.snippets import emitted, refusal

IR = {
    # copies: an element is a corner, a slice has extents, dims of 1 do not count
    "T.copy(A[bx * 64, k * 32], S)": "copy S <- A[bx * 64 :+ 64, k * 32 :+ 32]",
    "T.copy(A[by * 64 : (by + 1) * 64, k * 32 : k * 32 + 32], S)": "copy S <- A[by * 64 :+ 64, k * 32 :+ 32]",
    "T.copy(S, A[64:128, 32:64])": "copy A[64 :+ 64, 32 :+ 32] <- S",
    "T.copy(P[1, bx * 64 : (bx + 1) * 64, 2, :], F)": "copy F <- P[1 :+ 1, bx * 64 :+ 64, 2 :+ 1, 0 :+ 64]",
    "T.copy(P[1, bx * 64, 2, 0], V)": "copy V <- P[1 :+ 1, bx * 64 :+ 1, 2 :+ 1, 0 :+ 64]",
    "T.copy(F, P[0, 0, 2, 0])": "copy P[0 :+ 1, 0 :+ 1, 2 :+ 64, 0 :+ 64] <- F",
    "T.copy(X[k * 64], V)": "copy V <- X[k * 64 :+ 64]",
    "T.copy(X[0:n], V)": "copy V <- X[0 :+ 64]",
    "T.copy(X[I[k] : I[k + 1]], V)": "copy V <- X[int64(I[k]) :+ 64]",
    "T.copy(V, F[3, :])": "copy F[3 :+ 1, 0 :+ 64] <- V",
    "T.copy(V, F[:, k])": "copy F[0 :+ 64, k :+ 1] <- V",
    "T.copy(V[8:16], F[3, 8])": "copy F[3 :+ 1, 8 :+ 8] <- V[8 :+ 8]",
    "T.copy(A[k, 0], F[0, k])": "F[0, k] = float32(A[k, 0])",
    "T.async_copy(X[k * 64], V)": "async_copy V <- X[k * 64 :+ 64]",
    # fills
    "T.clear(F)": "fill F <- 0.0f32",
    "T.fill(W, -1)": "fill W <- -1i32",
    "T.fill(V[8:16], -T.infinity('float32'))": "fill V[8 :+ 8] <- -inf.f32",
    "T.fill(V, V[0])": "fill V <- V[0]",
    "T.fill(V[0], 2)": "V[0] = 2.0f32",
    # products
    "T.gemm(S, R, F)": "gemm F += S @ R, clear=False, policy='square'",
    "T.gemm(S, S, F, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)": "gemm F += S @ S.T, clear=False, policy='full_row'",
    "T.gemm(R, S, F, True, True, clear_accum=k == 0)": "gemm F += R.T @ S.T, clear=k == 0, policy='square'",
    "T.gemm(S[:, 0:16], R[16:32, :], F, clear_accum=True)": "gemm F += S[0 :+ 64, 0 :+ 16] @ R[16 :+ 16, 0 :+ 64], clear=True, policy='square'",
    # reductions
    "T.reduce_sum(F, V, dim=1)": "reduce V <- 'sum' of F over 1",
    "T.reduce_max(F, V, dim=0, clear=False)": "reduce V <- 'max' of F over 0, keep",
    "T.reduce_absmax(F, V)": "reduce V <- 'absmax' of F over 1",
    "T.reduce_min(F, V, 0, nan_propagate=True)": "reduce V <- 'min' of F over 0, nan",
    "T.reduce_sum(V, F[0, 0:1])": "reduce F[0 :+ 1, 0 :+ 1] <- 'sum' of V over 0",
    "T.reduce(F, V, 'abssum', 1)": "reduce V <- 'abssum' of F over 1",
    "T.reduce_max(F[3, :], V[0:1])": "reduce V[0 :+ 1] <- 'max' of F[3 :+ 1, 0 :+ 64] over 1",
    # scans
    "T.cumsum(F, dim=1, reverse=True)": "scan F <- 'sum' of F along 1, reverse",
    "T.cummax(V)": "scan V <- 'max' of V along 0",
    "T.cumsum(S, T.view(R, (64, 32)), dim=-1)": "scan R_view <- 'sum' of S along 1",
    # the rest
    "T.transpose(S, R)": "for i, j in parallel(64, 32):\n  R[j, i] = S[i, j]",
    "T.dp4a(W[0], W[4], W[8])": "W[8] = W[8] + W[0] * W[4] + W[1] * W[5] + W[2] * W[6] + W[3] * W[7]",
    "V[0] = T.reshape(F, (4096,))[k]": "V[0] = F_view[k]",
    "y = T.view(W, dtype='uint8')\nu = y[255]": "u[0] = y[255]",
    "r = T.alloc_reducer((64,), 'float32', 'max')\nT.reducer_init(r)\nT.reducer_update(r[k], V[0])\nT.finalize_reducer(r, V)": (
        "fill r <- -inf.f32\natomic 'max' r[k :+ 1] <- V[0], 'relaxed'\ncopy V <- r"
    ),
    "r = T.alloc_reducer((64,), 'float32', replication='all')\nT.clear(r)\nfor i in T.Parallel(64):\n    r[i] += V[i]\nT.finalize_reducer(r)": (
        "fill r <- 0.0f32\nfor i in parallel(64):\n  atomic 'add' r[i :+ 1] <- V[i], 'relaxed'"
    ),
}


@pytest.mark.parametrize("statement", IR)
def test_ir(statement):
    assert emitted(statement) == IR[statement]


def test_any_of_a_tile_is_a_reduction():
    assert emitted("if T.any_of(W[0:8]):\n    V[0] = 1") == (
        "copy W_any <- W[0 :+ 8]\nreduce any <- 'any' of W_any_view over 0\nif any[0]:\n  V[0] = 1.0f32"
    )
    assert emitted("if T.all_of(k > 1, V[0] > 0):\n    V[0] = 1") == "if k > 1 and V[0] > 0.0f32:\n  V[0] = 1.0f32"


def test_im2col_guards_every_load():
    text = emitted("T.im2col(T.reshape(P, (2, 16, 16, 192)), S, bx, k, 3, 1, 1, 1)")
    assert text == (
        "for i, j in parallel(64, 32):\n"
        "  S[i, j] = float16(P_view[(bx * 64 + i) // 256, (bx * 64 + i) // 16 % 16 + (k * 32 + j) // 192 // 3 - 1, "
        "(bx * 64 + i) % 16 + (k * 32 + j) // 192 % 3 - 1, (k * 32 + j) % 192] "
        "if (bx * 64 + i) // 256 < 2 and (k * 32 + j) // 192 < 9 and (bx * 64 + i) // 16 % 16 + (k * 32 + j) // 192 // 3 - 1 >= 0 "
        "and (bx * 64 + i) // 16 % 16 + (k * 32 + j) // 192 // 3 - 1 < 16 and (bx * 64 + i) % 16 + (k * 32 + j) // 192 % 3 - 1 >= 0 "
        "and (bx * 64 + i) % 16 + (k * 32 + j) // 192 % 3 - 1 < 16 else 0.0f32)"
    )


# statement -> (what it says, hint); the carets are under the call, which every one of them is
ERRORS = {
    "T.copy(A[0, 0:32], S)": (
        "value error: T.copy: the shapes do not fit: A (1, 32) to S (64, 32)",
        "the dims other than 1 must be equal, in order; slice the larger side, such as tile[0:48, :]",
    ),
    "T.copy(S, F)": (
        "value error: T.copy: the shapes do not fit: S (64, 32) to F (64, 64)",
        "the dims other than 1 must be equal, in order; slice the larger side, such as tile[0:48, :]",
    ),
    "T.copy(A[0:48, 0:32], S)": (
        "value error: T.copy: the shapes do not fit: A (48, 32) to S (64, 32)",
        "the dims other than 1 must be equal, in order; slice the larger side, such as tile[0:48, :]",
    ),
    "T.copy(F, X[0])": (
        "value error: T.copy: X[0] has 1 dim, the other side is (64, 64)",
        "index a buffer of at least 2 dims, or slice the other side down to 1",
    ),
    "T.copy(A[0:64, 0:32], S[8, 0])": (
        "out of bounds: T.copy touches S(64, 32) from 8 to 72 in dim 0, which has 64 elements",
        "make the slice or the other side at most 56 long there, or the buffer larger",
    ),
    "T.copy(3.0, S)": (
        "type error: T.copy needs a buffer, a slice or an element of one, got float 3.0",
        "a tile comes from a tensor parameter or from T.alloc_shared, T.alloc_fragment, ...",
    ),
    "T.fill(W, 1 << 40)": (
        "value error: 1099511627776 does not fit in int32",
        "int32 holds -2147483648 to 2147483647; use a wider dtype, or T.cast to wrap around",
    ),
    "T.gemm(S, R, F, policy=5)": ("type error: T.gemm: 5 is no warp policy", "T.GemmWarpPolicy.Square, .FullRow or .FullCol"),
    "T.copy(S)": (
        "type error: T.copy: missing a required argument: 'dst'",
        "the signature is T.copy(src, dst, *, coalesced_width=None, disable_tma=False, eviction_policy=None, prefer_instruction=None, "
        "annotations=None, loop_layout=None)",
    ),
    "T.gemm(S, S, F)": (
        "value error: T.gemm N shape check failed: B (64, 32) has N = 32, C (64, 64) has N = 64",
        "A is (M, K), B is (K, N), C is (M, N); transpose_A makes A (K, M), transpose_B makes B (N, K); did you forget one of them?",
    ),
    "T.gemm(R, R, F)": (
        "value error: T.gemm M shape check failed: A (32, 64) has M = 32, C (64, 64) has M = 64",
        "A is (M, K), B is (K, N), C is (M, N); transpose_A makes A (K, M), transpose_B makes B (N, K); did you forget one of them?",
    ),
    "T.gemm(F, R, F, transpose_A=True)": (
        "value error: T.gemm K shape check failed: A (64, 64) has K = 64, B (32, 64) has K = 32",
        "A is (M, K), B is (K, N), C is (M, N); transpose_A makes A (K, M), transpose_B makes B (N, K)",
    ),
    "T.gemm(A, R, F)": (
        "value error: T.gemm: A is the tensor A, in global memory",
        "copy a tile of it first: T.copy(A[...], A_shared)",
    ),
    "T.gemm(S, V, F)": (
        "value error: T.gemm: B must be a matrix, got V (64,)",
        "give a 2-D tile, or a slice whose dims before the last two are 1",
    ),
    "T.gemm(S, R, T.view(F, dtype='int32'))": (
        "type error: T.gemm cannot add products of float16 (A) in C, which is int32",
        'make C a "float32" fragment',
    ),
    "T.reduce_sum(F, V[0:32], dim=1)": (
        "value error: Invalid reduce output shape: T.reduce_sum of F (64, 64) over dim 1 gives (64,), V is (32,)",
        "allocate the output as (64,) or (64, 1)",
    ),
    "T.reduce_sum(F, V, dim=2)": (
        "value error: T.reduce_sum: dim 2 is out of range for F (64, 64)",
        "dim counts from 0 to 1, or from -1 at the end",
    ),
    "T.reduce_max(C, V, dim=1)": (
        "value error: T.reduce_max works on tiles; C is in global memory",
        "copy it to a fragment first",
    ),
    "T.reduce_max(L, V[0:1], dim=0)": (
        "value error: T.reduce_max cannot reduce from local to fragment memory",
        "both sides are shared or fragment tiles, or both local arrays",
    ),
    "T.reduce_bitor(F, V, dim=1)": (
        "type error: T.reduce_bitor needs integers or bools, F is float32",
        "T.reinterpret gives the bits of a float",
    ),
    "T.reduce(F, V, 'mean', 1)": (
        "value error: T.reduce knows no 'mean'",
        "one of sum, abssum, max, min, absmax, bitand, bitor, bitxor",
    ),
    "T.cumsum(F, V)": ("value error: T.cumsum: src is (64, 64) and dst (64,)", "both have the same shape"),
    "T.cumsum(V, dim=1)": (
        "value error: T.cumsum: dim 1 is out of range for V (64,)",
        "dim counts from 0 to 0, or from -1 at the end",
    ),
    "T.cumsum(C)": ("value error: T.cumsum works on tiles; C is in global memory", "copy it to a fragment or shared tile first"),
    "T.transpose(S, S)": (
        "value error: T.transpose: (64, 32) does not fit (64, 32)",
        "src is (M, N) and dst (N, M); dims before them are 1",
    ),
    "T.transpose(F, F)": ("value error: T.transpose cannot work in place", "give it a second buffer"),
    "T.reshape(F, (64, 63))": (
        "value error: T.reshape/view shape check failed: F (64, 64) float32 and (64, 63) float32 differ in size",
        "the total number of bits must stay the same",
    ),
    "T.view(F[0:2], (128,))": (
        "type error: T.view needs a whole buffer, got <a slice (2, 64) of F float32>",
        "slices are regions already; copy the slice to a tile first",
    ),
    "T.view(F, dtype='float99')": (
        "type error: 'float99' is not a dtype",
        "use T.float16, T.float32, T.int32, ... or their names",
    ),
    "T.alloc_reducer((4,), 'float32', 'mean')": ("value error: T.alloc_reducer knows no operation 'mean'", 'one of "sum", "max", "min"'),
    "T.reducer_init(V)": (
        "type error: T.reducer_init needs a reducer, got <buffer V(64,) float32 local.fragment>",
        "make one with T.alloc_reducer(shape, dtype, op)",
    ),
    "T.reducer_update(V[0], 1)": (
        "type error: T.reducer_update needs an element of a reducer",
        "T.reducer_update(acc[i], value), acc from T.alloc_reducer",
    ),
    "T.im2col(A, S, 0, 0, 3, 1, 1, 1)": (
        "value error: T.im2col loads from a whole image (N, H, W, C) into a tile (block_M, block_K)",
        "give the 4-D buffer and a 2-D tile",
    ),
}


@pytest.mark.parametrize("statement", ERRORS)
def test_errors(statement):
    message, hint = ERRORS[statement]
    expected = f"kernel.py:18:13: {message}\n      {statement}\n      {'^' * len(statement)}" + (f"\n  hint: {hint}" if hint else "")
    assert refusal(statement) == expected


@pytest.mark.parametrize(
    "word",
    [
        "T.copy(V, V)", "T.clear(V)", "T.gemm(S, R, F)", "T.reduce_sum(F, V, 1)", "T.cumsum(V)", "T.transpose(S, R)",
        "T.atomic_add(C[0:64, 0:64], F)",
    ],
)  # fmt: skip
def test_tile_operations_are_refused_in_parallel_loops(word):
    name = word[: word.index("(")]
    assert refusal(f"for i in T.Parallel(64):\n    {word}") == (
        f"kernel.py:19:17: value error: {name} works on whole tiles and cannot stand inside T.Parallel\n"
        f"      {word}\n      {'^' * len(word)}\n"
        "  hint: move it out of the T.Parallel loop, or write the elements out with loads and stores"
    )
