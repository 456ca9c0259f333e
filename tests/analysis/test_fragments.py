"""Where fragments lie: attention stays in registers, and what cannot is named with its reason."""

from __future__ import annotations

import itertools
from typing import Any

import tileworkbench.language as T
from tileworkbench.analysis.fragments import Placement, place_fragments
from tileworkbench.transform.form_tiles import form_tiles


def placed(function: Any, arch: int = 80) -> tuple[Placement, dict[str, Any], dict[str, str]]:
    launch = form_tiles(function.kernel, arch).launches[0]
    found = place_fragments(launch, arch)
    return found, {b.name: f for b, f in found.fragments.items()}, {b.name: why for b, why in found.shared.items()}


def attention(threads: int = 128, policy: Any = T.GemmWarpPolicy.FullRow) -> Any:
    @T.prim_func
    def flash(
        Q: T.Tensor((128, 64), "float16"), K: T.Tensor((512, 64), "float16"), V: T.Tensor((512, 64), "float16"), O: T.Tensor((128, 64), "float16")
    ):  # type: ignore[valid-type]
        with T.Kernel(1, threads=threads) as bx:
            Q_s = T.alloc_shared((128, 64), "float16")
            K_s = T.alloc_shared((64, 64), "float16")
            V_s = T.alloc_shared((64, 64), "float16")
            scores = T.alloc_fragment((128, 64), "float32")
            weights = T.alloc_fragment((128, 64), "float16")
            out = T.alloc_fragment((128, 64), "float32")
            top = T.alloc_fragment((128,), "float32")
            old = T.alloc_fragment((128,), "float32")
            part = T.alloc_fragment((128,), "float32")
            total = T.alloc_fragment((128,), "float32")
            T.copy(Q[bx * 128, 0], Q_s)
            T.fill(out, 0)
            T.fill(total, 0)
            T.fill(top, -T.infinity("float32"))
            for k in T.Pipelined(8, num_stages=1):
                T.copy(K[k * 64, 0], K_s)
                T.clear(scores)
                T.gemm(Q_s, K_s, scores, transpose_B=True, policy=policy)
                T.copy(V[k * 64, 0], V_s)
                T.copy(top, old)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(128):
                    old[i] = T.exp2(old[i] - top[i])
                for i, j in T.Parallel(128, 64):
                    scores[i, j] = T.exp2(scores[i, j] - top[i])
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(128):
                    total[i] = total[i] * old[i] + part[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(128, 64):
                    out[i, j] *= old[i]
                T.gemm(weights, V_s, out, policy=policy)
            for i, j in T.Parallel(128, 64):
                out[i, j] /= total[i]
            T.copy(out, O[bx * 128, 0])

    return flash


def test_attention_stays_in_registers() -> None:
    for arch, threads, policy in itertools.product((80, 90), (128, 256), (T.GemmWarpPolicy.FullRow, T.GemmWarpPolicy.Square)):
        found, fragments, shared = placed(attention(threads, policy), arch)
        assert shared == {}
        assert {u.kind for u in found.units.values()} == {"mma" if arch == 80 else "wgmma"}
        assert fragments["weights"] != fragments["scores"]
        assert fragments["top"] == fragments["total"] == fragments["scores"].drop(1)
        assert fragments["top"].copies == 4  # the lanes that share a row
        assert fragments["top"].registers == 128 // (threads // 4)


def test_rows_of_a_softmax_are_spread_in_vectors() -> None:
    @T.prim_func
    def rows(X: T.Tensor((64, 1024), "float32"), Y: T.Tensor((64, 1024), "float32")):  # type: ignore[valid-type]
        with T.Kernel(16, threads=128) as bx:
            x = T.alloc_fragment((4, 1024), "float32")
            s = T.alloc_fragment((4,), "float32")
            T.copy(X[bx * 4, 0], x)
            T.reduce_sum(x, s, dim=1)
            for i, j in T.Parallel(4, 1024):
                x[i, j] = x[i, j] / s[i]
            T.copy(x, Y[bx * 4, 0])

    _, fragments, shared = placed(rows)
    assert shared == {}
    assert fragments["x"].registers == 32
    assert fragments["s"].copies == 128


def test_what_cannot_lie_in_registers_is_named() -> None:
    @T.prim_func
    def odd(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32"), n: T.int32):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((64,), "float32")
            y = T.alloc_fragment((64,), "float32")
            z = T.alloc_fragment((64,), "float32")
            T.copy(X, x)
            T.copy(X, z)
            for i in T.Parallel(64):
                y[i] = x[63 - i]
            for i in T.Parallel(64):
                Y[i] = y[i] + z[(i + n) % 64]

    _, fragments, shared = placed(odd)
    assert set(fragments) == {"y"}
    assert shared == {"x": "a thread would need another thread's cell", "z": "a register would be chosen at run time"}


def test_single_cells_and_parts() -> None:
    @T.prim_func
    def some(X: T.Tensor((64, 64), "float32"), Y: T.Tensor((64, 64), "float32")):  # type: ignore[valid-type]
        with T.Kernel(2, threads=64) as bx:
            x = T.alloc_fragment((32, 64), "float32")
            one = T.alloc_fragment((4,), "float32")
            T.copy(X[bx * 32, 0], x)
            one[0] = X[0, 0]
            for i, j in T.Parallel(32, 64):
                x[i, j] = x[i, j] + one[0]
            T.copy(x[0:16, 0:64], Y[bx * 32, 0])

    _, fragments, shared = placed(some)
    assert set(fragments) == {"x"}  # a part that is known beforehand is a choice of registers
    assert shared == {"one": "the block reads or writes single cells of it"}
