"""One problem on the GPU: compile, check, find the best peer, take turns with it, check again."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ...base.errors import InternalError, TileError
from ...base.machine import Machine, preset_of_device
from . import turns
from .arrays import Set, count_of_sets, make_sets, poison
from .check import check
from .ours import Ours, ours
from .problems import Problem
from .result import FAILED, GOOD, REFUSED, WRONG, Result
from .roof import roof_seconds
from .torch_peer import Way, ways

SLOW = 8.0  # a peer that takes so many times as long as the best so far is tried once only


class CudaClock:
    """PyTorch's current stream."""

    def __init__(self, torch: Any, ghz: float = 1.98) -> None:
        self.torch, self.ghz = torch, ghz

    def mark(self) -> Any:
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, first: Any, second: Any) -> float:
        return float(first.elapsed_time(second))

    def has_passed(self, mark: Any) -> bool:
        return bool(mark.query())

    def wait(self) -> None:
        self.torch.cuda.synchronize()

    def hold(self, microseconds: float) -> None:
        self.torch.cuda._sleep(int(microseconds * 1e3 * self.ghz))


@dataclass(frozen=True, slots=True)
class Bench:
    """Where problems are played: PyTorch, its device, the stream's clock, the target to compile for, and the machine on paper (None: unknown)."""

    torch: Any
    device: str
    clock: turns.Clock
    target: str
    machine: Machine | None


def cuda_bench(torch: Any) -> Bench:
    """The current CUDA device."""
    return Bench(torch, "cuda", CudaClock(torch), "cuda", preset_of_device(torch.cuda.get_device_name()))


def play(bench: Bench, p: Problem) -> Result:
    """Solve a problem by both sides."""
    try:
        kernel = ours(p, bench.target)
    except InternalError as error:
        return Result(p, FAILED, _line(error))
    except TileError as error:
        return Result(p, REFUSED, _line(error))
    except Exception as error:  # whatever our compiler does not foresee is a row of the table, too
        return Result(p, FAILED, _line(error))
    known = Result(
        p, GOOD, schedule=kernel.schedule, compile_ms=kernel.compile_ms, registers=kernel.registers, spilt_bytes=kernel.spilt_bytes,
        shared_bytes=kernel.shared_bytes, notes=kernel.notes,
    )  # fmt: skip
    sets = make_sets(bench.torch, p, bench.device, count_of_sets(p))
    try:
        return _judge(bench, p, kernel, sets, known)
    except Exception as error:
        return replace(known, status=FAILED, why=_line(error))


def _judge(bench: Bench, p: Problem, kernel: Ours, sets: list[Set], known: Result) -> Result:
    torch, clock = bench.torch, bench.clock
    poison(torch, sets[0].out)
    try:
        kernel.launch(sets[0])
    except TileError as error:
        return replace(known, status=REFUSED, why=_line(error))
    clock.wait()
    verdict = check(torch, p, sets[0])
    known = replace(known, error=verdict.error)
    if verdict.why:
        return replace(known, status=WRONG, why=verdict.why)
    timed = _time(bench, p, kernel, sets, known)
    for tensors in sets[:2]:  # once more, behind other launches and on other numbers
        poison(torch, tensors.out)
        kernel.launch(tensors)
    clock.wait()
    for tensors in sets[:2]:
        verdict = check(torch, p, tensors)
        if verdict.why:
            return replace(known, status=WRONG, why=f"after other launches: {verdict.why}")
    return timed


def _time(bench: Bench, p: Problem, kernel: Ours, sets: list[Set], known: Result) -> Result:
    clock = bench.clock
    mine = _runs(kernel.launch, sets)
    found, absent = best_peers(bench, p, sets)
    best = min(found, key=lambda name: found[name][1], default="")
    roof = roof_seconds(p, bench.machine)
    known = replace(
        known, peer=best, peers={name: ms * 1e3 for name, (_, ms) in found.items()}, absent=absent, roof_us=roof * 1e6 if roof is not None else None
    )  # fmt: skip
    context = found[best][0].context if best else contextlib.nullcontext
    with context():
        theirs = _runs(found[best][0].launch, sets) if best else None
        if p.is_copy_bound:
            return _beside_copy(bench, p, sets, mine, theirs, known)
        if theirs is None:
            return replace(known, us=turns.estimate(clock, mine) * 1e3, why="no peer ran")
        ms = found[best][1]
        turns.heat(clock, theirs, ms)
        pair = turns.alternate(clock, {"ours": mine}, theirs, ms)["ours"]
        known = replace(known, us=pair.ms * 1e3, peer_us=pair.base_ms * 1e3, alt=pair.ratio)
        if min(pair.ms, pair.base_ms) < turns.SEGMENT_LEAST_MS:
            return known
        return replace(known, seg=turns.segments(clock, mine, theirs, ms).ratio)


def _beside_copy(bench: Bench, p: Problem, sets: list[Set], mine: turns.Runs, theirs: turns.Runs | None, known: Result) -> Result:
    """Both sides beside a copy of as many bytes, each against it: the ratio of the two is that between the sides."""
    torch, clock = bench.torch, bench.clock
    sources = [torch.randint(-128, 128, (p.bytes // 2,), dtype=torch.int8, device=bench.device) for _ in range(2)]
    copies = [(torch.empty_like(source), source) for source in sources]
    base = [_copy(*pair) for pair in copies]
    ms = turns.estimate(clock, base)
    turns.heat(clock, base, ms)
    pairs = turns.alternate(clock, {"ours": mine, **({"peer": theirs} if theirs is not None else {})}, base, ms)
    seg = turns.segments(clock, mine, base, ms).ratio if ms >= turns.SEGMENT_LEAST_MS else None
    peer = pairs.get("peer")
    return replace(
        known, us=pairs["ours"].ms * 1e3, copy_us=pairs["ours"].base_ms * 1e3, copy_alt=pairs["ours"].ratio, copy_seg=seg,
        peer_us=peer.ms * 1e3 if peer else None, alt=pairs["ours"].ratio / peer.ratio if peer else None,
    )  # fmt: skip


def _copy(target: Any, source: Any) -> turns.Run:
    return lambda: target.copy_(source)


def best_peers(bench: Bench, p: Problem, sets: list[Set]) -> tuple[dict[str, tuple[Way, float]], dict[str, str]]:
    """The ways that run, with the milliseconds of one launch; and why others do not."""
    found: dict[str, tuple[Way, float]] = {}
    absent: dict[str, str] = {}
    for way in ways(bench.torch, p):
        try:
            with way.context():
                start = time.perf_counter()
                runs = _runs(way.launch, sets)
                runs[0]()
                bench.clock.wait()
                once = (time.perf_counter() - start) * 1e3
                usual = min((ms for _, ms in found.values()), default=once)
                found[way.name] = (way, turns.estimate(bench.clock, runs, 5 if once < max(50.0, SLOW * usual) else 1))
        except Exception as error:  # a backend that cannot do this shape says so
            absent[way.name] = _line(error)
    return found, absent


def _runs(launch: Callable[[Set], Any], sets: list[Set]) -> turns.Runs:
    return [_one(launch, s) for s in sets]


def _one(launch: Callable[[Set], Any], tensors: Set) -> turns.Run:
    return lambda: launch(tensors)


def _line(error: Exception) -> str:
    """The first words of an error."""
    text = next((line for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {text.strip()}"[:300]
