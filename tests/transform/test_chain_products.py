"""Loops of two products, the second from what the block makes of the first (sm_90a): the same numbers for every trip count."""

# mypy: disable-error-code="no-untyped-def, valid-type, untyped-decorator"
from __future__ import annotations

import numpy as np
import pytest

import tileworkbench
import tileworkbench.language as T
from tileworkbench.base.dtypes import INDEX
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.ir.build import add, cast, index
from tileworkbench.ir.device import WaitProducts
from tileworkbench.ir.expr import Const, Load, Var
from tileworkbench.ir.node import Node, replace, rewrite, walk
from tileworkbench.ir.stmt import For, Gemm, Kernel, Launch, Let, ParallelFor, PipelinedFor, Store
from tileworkbench.runtime import toolchain
from tileworkbench.transform.chain_products import chain_products
from tileworkbench.transform.cuda_lowering import cuda_steps
from tileworkbench.transform.names import Names

pytestmark = pytest.mark.skipif(toolchain.default_compiler() is None, reason="needs a host C++ compiler")
ROWS, KEYS, DIM, MOST = 128, 64, 64, 5


def chain(stages: int = 2, fixed: int = 0, same: bool = False, touched: bool = False, blocks: int = 1) -> PrimFunc:
    """O = sum over tiles of keys, each half as heavy as the next: (Q K^T) V. `fixed`: turns, else an argument. `same`: V is K's tile.

    `touched`: the block reads the sums before it makes the second factor. `blocks`: of a cluster, which do the same.
    """

    @T.prim_func
    def chained(
        Q: T.Tensor((ROWS, DIM), "float16"), K: T.Tensor((MOST * KEYS, DIM), "float16"), V: T.Tensor((MOST * KEYS, DIM), "float16"),
        N: T.Tensor((1,), "int32"), O: T.Tensor((ROWS, DIM), "float32"),
    ):  # fmt: skip
        with T.Kernel(blocks, threads=256, cluster_dims=blocks):
            q = T.alloc_shared((ROWS, DIM), "float16")
            k = T.alloc_shared((KEYS, DIM), "float16")
            v = T.alloc_shared((KEYS, DIM), "float16")
            s = T.alloc_fragment((ROWS, KEYS), "float32")
            p = T.alloc_fragment((ROWS, KEYS), "float16")
            o = T.alloc_fragment((ROWS, DIM), "float32")
            T.copy(Q, q)
            T.clear(o)
            for i in T.Pipelined(fixed if fixed else N[0], num_stages=stages):
                T.copy(K[i * KEYS, 0], k)
                if not same:
                    T.copy(V[i * KEYS, 0], v)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                if touched:
                    for r, c in T.Parallel(ROWS, DIM):
                        o[r, c] = o[r, c] * 0.5
                T.copy(s, p)
                if not touched:
                    for r, c in T.Parallel(ROWS, DIM):
                        o[r, c] = o[r, c] * 0.5
                T.gemm(p, k if same else v, o)
            T.copy(o, O)

    result: PrimFunc = chained
    return result


def after(program: PrimFunc, name: str) -> Kernel:
    kernel = program.kernel
    for step in cuda_steps(90):
        kernel = step.run(kernel)
        if step.name == name:
            return kernel
    raise ValueError(name)


def is_chained(program: PrimFunc) -> bool:
    return any(isinstance(n, WaitProducts) for n in walk(after(program, "chain_products")))


def check(program: PrimFunc, turns: int, same: bool = False) -> None:
    rng = np.random.default_rng(turns)
    q, k, v = (rng.standard_normal(shape).astype(np.float16) for shape in ((ROWS, DIM), (MOST * KEYS, DIM), (MOST * KEYS, DIM)))
    k[turns * KEYS :] = v[turns * KEYS :] = np.inf  # what must not be read
    out = np.full((ROWS, DIM), -7, np.float32)
    kernel = tileworkbench.compile(program, target="emulate:sm_90a")
    args = (q, k, v, np.array([turns], np.int32), out)
    kernel(*args)
    want, size = np.zeros((ROWS, DIM)), np.zeros((ROWS, DIM))
    for i in range(turns):
        keys, values = (t[i * KEYS : (i + 1) * KEYS].astype(np.float64) for t in (k, k if same else v))
        s = q.astype(np.float64) @ keys.T
        want, size = want * 0.5 + s @ values, size * 0.5 + np.abs(s) @ np.abs(values)
    assert np.all(np.abs(out - want) <= size * 2.0**-10)
    found = kernel.sanitize(*args, arch="sm_90a")
    assert found.is_clean, str(found)


@pytest.mark.parametrize("turns", [0, 1, 2, 5])
def test_every_trip_count(turns: int) -> None:
    assert is_chained(chain())
    check(chain(), turns)


@pytest.mark.parametrize("touched", [False, True])
def test_a_known_trip_count(touched: bool) -> None:
    assert is_chained(chain(3, 4, touched=touched))
    check(chain(3, 4, touched=touched), 4)


def test_the_second_product_runs_beside_what_follows_the_first() -> None:
    """Each product stands in the loop once, the one of the next turn first; sums and factor are touched behind the wait for the second one only."""
    kernel = after(chain(), "chain_products")
    loop = next(n for n in walk(kernel) if isinstance(n, For) and any(isinstance(s, WaitProducts) for s in n.body))
    products = [n for s in loop.body for n in walk(s) if isinstance(n, Gemm)]
    assert [(p.a.buffer.scope, p.is_async) for p in products] == [("shared", True), ("fragment", True)]
    before, behind = (i for i, s in enumerate(loop.body) if isinstance(s, WaitProducts))
    assert [s.left for s in loop.body if isinstance(s, WaitProducts)] == [0, 1]
    at = [i for i, s in enumerate(loop.body) if any(isinstance(n, Gemm) for n in walk(s))]
    touched = [i for i, s in enumerate(loop.body) if isinstance(s, ParallelFor)]
    assert touched and before < min(touched) and max(touched) < min(at) and max(at) < behind
    assert sum(isinstance(n, Gemm) for n in walk(kernel)) == 3  # the first product of the first turn


def test_what_cannot_be_turned_stays() -> None:
    """One version of the tiles, which a block or a cluster frees; one tile for both products."""
    assert not is_chained(chain(1))
    assert is_chained(chain(2, blocks=2)) and not is_chained(chain(1, blocks=2))
    assert not is_chained(chain(2, same=True))
    check(chain(2, same=True), 3, same=True)


@pytest.mark.parametrize("is_used", [False, True])
def test_a_name_that_a_count_would_change_stops_it(is_used: bool) -> None:
    """Before the first product a count gets a name, and goes on behind it: where the block needs the name later, it cannot be asked for again."""
    kernel = after(chain(), "overlap_products")
    count, name = Names(kernel).scalar("count", INDEX), Var("counted", INDEX)
    now = Load(count, (index(0),))

    def counted(node: Node) -> Node:
        match node:
            case For(body=body) | PipelinedFor(body=body) if sum(isinstance(s, Gemm) for s in body) == 2:
                first = next(i for i, s in enumerate(body) if isinstance(s, Gemm))
                on = Store(count, (index(0),), add(now, index(1)))
                return replace(node, body=(Let(name, now), *body[: first + 1], on, *body[first + 1 :]))
            case Const(0.5) if is_used:
                return cast(name, node.dtype)
            case Launch():
                return replace(node, allocs=(*node.allocs, count))
            case _:
                return node

    made = chain_products(rewrite(kernel, counted), 90)
    assert any(isinstance(n, WaitProducts) for n in walk(made)) != is_used
