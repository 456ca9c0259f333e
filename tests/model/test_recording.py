"""The flight recorder: roles from structure, values as they were, bytes that end at the report's totals, on-chip memory."""

from __future__ import annotations

import numpy as np
import pytest

from tileworkbench.base.machine import find_machine
from tileworkbench.kernels.attention import Schedule, attention
from tileworkbench.kernels.gemm import gemm
from tileworkbench.kernels.softmax import softmax
from tileworkbench.model.recording import AFTER, BEFORE, keep, record_run
from tileworkbench.model.report import report
from tileworkbench.model.roles import find_roles

SEQ, DIM, TILE = 32, 8, 8


@pytest.fixture(scope="module")
def inputs():
    rng = np.random.default_rng(0)
    return tuple(rng.standard_normal((1, 1, SEQ, DIM)).astype(np.float32) for _ in range(3))


def recorded(inputs, *, causal=False, machine="h200", **options):
    kernel = attention(1, 1, SEQ, DIM, causal=causal, schedule=Schedule(TILE, TILE))
    call = kernel.bind(*inputs)
    chosen = find_machine(machine)
    facts = report(kernel.ir, chosen, call.dims, threads=chosen.cores)
    arrays = [bound.array for bound in call.tensors]
    return record_run(kernel.ir, arrays, report=facts, scalars=call.scalars, dims=call.dims, **options), arrays


def test_roles_come_from_structure():
    roles = find_roles(attention(1, 1, SEQ, DIM, schedule=Schedule(TILE, TILE)).ir)
    found = {role.name: role.buffer for role in roles.tiles}
    assert found == {"Q": "q", "K": "k", "V": "v", "S": "s", "m": "top", "l": "total", "O": "out"}


def test_a_copy_of_the_scores_is_a_role_of_its_own():
    """In float16 the second product takes a narrower copy of the exponentials."""
    roles = find_roles(attention(1, 1, SEQ, 16, dtype="float16", schedule=Schedule(16, 16)).ir)
    assert (roles.of("S").buffer, roles.of("P").buffer) == ("s", "p")


def test_other_kernels_have_roles_too():
    product = {role.name: role.kind for role in find_roles(gemm(32, 32, 32).ir).tiles}
    assert product == {"A": "input", "B": "input", "C": "result"}
    rows = {role.name for role in find_roles(softmax(16, 32).ir).tiles}
    assert rows == {"x", "top", "total"}


def test_watch_names_tiles_by_hand():
    ir = attention(1, 1, SEQ, DIM, schedule=Schedule(TILE, TILE)).ir
    assert [r.name for r in find_roles(ir, ("fade", "s")).tiles] == ["fade", "s"]
    assert find_roles(ir, {"scores": "s"}).of("scores").kind == "work"
    with pytest.raises(ValueError, match="no tile is called nope; the tiles are q, k"):
        find_roles(ir, ("nope",))


def test_values_are_those_of_the_run(inputs):
    """Scores, maximum and sum of one step against NumPy, at the operations that made them."""
    recording, _ = recorded(inputs)
    q, k = inputs[0][0, 0], inputs[1][0, 0]
    block = len(recording.blocks) - 1  # the kernel walks the blocks of queries backwards
    first_query = SEQ - TILE * (block + 1)
    step = recording.at(block, 1)
    product = next(op for op in step if op.kind == "gemm" and "S" in op.writes)
    scores = q[first_query : first_query + TILE] @ k[TILE : 2 * TILE].T
    np.testing.assert_allclose(product.tiles["S"].values, scores, rtol=1e-5)
    seen = q[first_query : first_query + TILE] @ k[: 2 * TILE].T
    np.testing.assert_allclose(step[-1].tiles["m"].values[0], seen.max(axis=1), rtol=1e-6)
    sums = np.exp((seen - seen.max(axis=1, keepdims=True)) / DIM**0.5).sum(axis=1)
    np.testing.assert_allclose(step[-1].tiles["l"].values[0], sums, rtol=1e-5)


def test_the_result_is_rescaled_before_it_grows(inputs):
    """O after the rescale is O before it, times what the rise of the maximum takes."""
    recording, _ = recorded(inputs)
    before = recording.at(0, 0)[-1].tiles
    step = recording.at(0, 1)
    rescaled = next(op for op in step if "O" in op.writes)
    factor = np.exp((before["m"].values[0] - step[-1].tiles["m"].values[0]) / DIM**0.5)
    np.testing.assert_allclose(rescaled.tiles["O"].values, before["O"].values * factor[:, None], rtol=1e-4)


@pytest.mark.parametrize("machine", ["reference", "h200"])
@pytest.mark.parametrize("causal", [False, True])
def test_bytes_end_at_the_reports_totals(inputs, machine, causal):
    recording, _ = recorded(inputs, machine=machine, causal=causal)
    assert recording.ops[-1].bytes == pytest.approx(recording.totals)
    assert all(recording.totals.values())
    for level in recording.totals:
        series = [op.bytes[level] for op in recording.ops]
        assert series == sorted(series)


def test_dram_delivers_a_byte_when_it_is_first_touched(inputs):
    """The first block brings all of K and V; the others find them in L2, which is asked again."""
    recording, _ = recorded(inputs)
    walk = [(recording.at(b, BEFORE)[-1].bytes, recording.at(b, 3)[-1].bytes) for b in range(len(recording.blocks))]
    tensor = SEQ * DIM * 4
    assert [after["DRAM"] - before["DRAM"] for before, after in walk] == pytest.approx([2 * tensor, 0, 0, 0])
    assert [after["L2"] - before["L2"] for before, after in walk] == pytest.approx([2 * tensor] * 4)


def test_a_causal_kernel_skips_pairs(inputs):
    recording, _ = recorded(inputs, causal=True)
    walks = [[s for s in recording.steps(b) if s >= 0] for b in range(len(recording.blocks))]
    assert sorted(len(walk) for walk in walks) == [1, 2, 3, 4]
    assert recording.at(walks.index([0]), 3) == ()


def test_steps_before_and_behind_the_loop(inputs):
    recording, _ = recorded(inputs)
    assert recording.steps(0) == (BEFORE, 0, 1, 2, 3, AFTER)
    assert recording.label(0) == f"block 0: Q[{SEQ - TILE}:{SEQ}, 0:{DIM}]"
    assert recording.step_label(0, 2) == f"step = 2: K[{2 * TILE}:{3 * TILE}, 0:{DIM}]"


def test_the_run_is_a_real_run(inputs):
    """Recording changes no result."""
    _, arrays = recorded(inputs)
    kernel = attention(1, 1, SEQ, DIM, schedule=Schedule(TILE, TILE))
    np.testing.assert_allclose(arrays[-1], kernel(*inputs), rtol=1e-4, atol=1e-5)


def test_one_block(inputs):
    recording, _ = recorded(inputs, block=(2,))
    assert recording.blocks == ((2, 0, 0),)
    with pytest.raises(ValueError, match=r"ran no block \(9,\)"):
        recorded(inputs, block=(9,))


def test_live_memory_is_what_is_still_needed(inputs):
    """While the scores are made, K is in use and V is not yet; afterwards K is not any more."""
    recording, _ = recorded(inputs)
    step = {op.line: op.live_bytes["shared"] for op in recording.at(0, 0)}
    tile = TILE * DIM * 4
    assert next(n for line, n in step.items() if "T.gemm(q, k" in line) == 2 * tile  # q and k
    assert next(n for line, n in step.items() if "reduce_max" in line) == tile  # q, for the next step


def test_capacity_is_the_machines(inputs):
    shared, registers = recorded(inputs)[0].stores
    assert (shared.name, shared.need_bytes, shared.capacity_bytes, shared.fits) == ("shared memory", 3 * TILE * DIM * 4, 227 << 10, True)
    assert registers.fits
    kernel = attention(1, 1, 512, 128, schedule=Schedule(128, 256))
    call = kernel.bind(*(np.ones((1, 1, 512, 128), np.float32) for _ in range(3)))
    facts = report(kernel.ir, find_machine("h200"), call.dims, threads=132)
    big = record_run(kernel.ir, [b.array for b in call.tensors], report=facts, block=(0,))
    assert not big.stores[0].fits
    assert big.ops[-1].tiles["S"].is_sampled


def test_a_large_tile_is_sampled_and_says_so():
    array = np.arange(64 * 48, dtype=np.float32).reshape(1, 64, 48)
    tile = keep("t", array, limit=16)
    assert tile.values.shape == (16, 16)
    assert (tile.rows[1], tile.columns[1]) == (4, 3)
    assert (tile.low, tile.high) == (0, 64 * 48 - 1)  # of all elements, kept or not
    assert "shown: 16 x 16" in str(tile)
    array[0, 1, 1] = np.nan
    assert keep("t", array).bad == 1
