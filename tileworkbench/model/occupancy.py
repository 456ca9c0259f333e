"""What a block of a kernel needs, against what a multiprocessor has: how many blocks fit at once, what limits them, and what would admit one more.

Where a kernel was compiled for such a GPU, registers, threads and shared bytes are the compiler's (`Compiled`). Else needs come from tile IR: shared
tiles, once for each stage of the pipelined loop that fills them, and the stages of results that passes add; fragments, spread over the threads, with
registers as an estimate. On a CPU the same tiles are held against the caches of a core.

    o = occupancy(kernel.ir, find_machine("h200"))
    print(o)                  # 2 blocks (8 of 64 warps, 12 %): shared memory limits; -6 KiB shared -> 3 blocks
    o.refusals                # why it cannot run at all: empty if it can
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..base.gpu import WARP, Gpu
from ..base.hardware import Machine
from ..ir.node import walk
from ..ir.stmt import Copy, Kernel, Launch, PipelinedFor
from .needs import Need, kib, needs_of, registers_of, what_fits
from .result_stages import result_stages

SHARED, REGISTERS, THREADS, BLOCKS = "shared memory", "registers", "threads", "blocks"
COPYING_WARPS = 4  # a warp group that starts copies: registers are given to whole groups (`transform.specialise_warps`)


@dataclass(frozen=True, slots=True)
class Gauge:
    """How full one resource is: `used` of `capacity`, in bytes ("B") or as counts ("")."""

    name: str
    used: float
    capacity: float
    unit: str

    @property
    def share(self) -> float:
        return self.used / self.capacity if self.capacity else 0.0

    def __str__(self) -> str:
        used, capacity = (kib(x) if self.unit == "B" else f"{x:g}" for x in (self.used, self.capacity))
        return f"{self.name} {used} of {capacity} ({self.share * 100:.0f} %)"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a block cannot run: `limit` is "shared memory", "registers" or "threads", `why` a sentence with numbers, `fits` what would, or ""."""

    limit: str
    why: str
    fits: str = ""

    def __str__(self) -> str:
        return self.why + (f"; {self.fits}" if self.fits else "")


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a block of a compiled launch takes: threads with their registers, bytes of shared memory. `by`: who says so ("NVRTC 13.0 for sm_90a")."""

    threads: int
    registers: int
    shared_bytes: int
    by: str = ""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Needs of a block and how many fit. All counts are of one SM; on a CPU, where a core runs one block, `blocks` is 1 and `warps` 0.

    `by_limit` holds the blocks that each resource alone admits. `registers` are per thread, an estimate if `is_estimated`. `gauges` are of one block:
    shared memory, registers and threads of a GPU, the caches of a CPU's core. `threads` are the author's. `by`: the compiler whose numbers these are,
    "" where they are estimated.
    """

    kernel: str
    machine: str
    threads: int
    shared_bytes: int
    registers: int
    is_estimated: bool
    needs: tuple[Need, ...]
    gauges: tuple[Gauge, ...]
    blocks: int
    warps: int = 0
    max_warps: int = 0
    by_limit: Mapping[str, int] = field(default_factory=dict)
    limiter: str = ""
    next_step: str = ""
    refusals: tuple[Refusal, ...] = ()
    by: str = ""

    @property
    def share(self) -> float:
        """Warps that run over warps that could; 1 on a CPU."""
        return self.warps / self.max_warps if self.max_warps else 1.0

    @property
    def is_legal(self) -> bool:
        return not self.refusals

    @property
    def refusal(self) -> str:
        """Why a block cannot run, in one line; "" if it can."""
        return " | ".join(map(str, self.refusals))

    @property
    def data(self) -> dict[str, Any]:
        """Plain numbers and words."""
        return {**asdict(self), "share": self.share, "refusal": self.refusal, "gauges": [{**asdict(g), "share": g.share} for g in self.gauges]}

    @property
    def sentence(self) -> str:
        """One line: blocks, warps, limiter and next step."""
        if self.refusals:
            return f"does not fit: {self.refusal}"
        if not self.max_warps:
            return self.next_step
        blocks = f"{self.blocks} block{'s' if self.blocks != 1 else ''}"
        more = f"; {self.next_step}" if self.next_step else ""
        return f"{blocks} on an SM ({self.warps} of {self.max_warps} warps, {self.share * 100:.0f} %): {self.limiter} limits{more}"

    def __str__(self) -> str:
        lines = [f"{self.kernel} on {self.machine}: {self.sentence}", *(f"  {g}" for g in self.gauges)]
        kind = ", estimated" if self.is_estimated and self.max_warps else f", by {self.by}" if self.by else ""
        lines += [f"  {self.registers} registers a thread{kind}"] if self.max_warps else []
        return "\n".join([*lines, *(f"  {n.scope:<9} {n}" for n in self.needs)])


def occupancy(
    kernel: Kernel, machine: Machine, *, registers: int | None = None, schedule: Mapping[str, Any] | None = None, compiled: Sequence[Compiled] = ()
) -> Occupancy:  # fmt: skip
    """The needs of a block of `kernel`; of its tightest launch, where it has several.

    Args:
        registers: per thread, as the compiler says; None estimates them.
        schedule: the kernel's tunables by name, for words such as "block_K=32 fits".
        compiled: what the launches take, as compiled for such a GPU; nothing estimates all of it.
    """
    found = occupancies(kernel, machine, registers=registers, schedule=schedule, compiled=compiled)
    if not found:
        return Occupancy(kernel.name, machine.name, 1, 0, 0, True, (), (), 1, next_step="nothing is launched")
    return min(found, key=lambda o: (o.is_legal, o.share, -sum(n.bytes for n in o.needs)))


def occupancies(
    kernel: Kernel, machine: Machine, *, registers: int | None = None, schedule: Mapping[str, Any] | None = None, compiled: Sequence[Compiled] = ()
) -> tuple[Occupancy, ...]:  # fmt: skip
    """The needs of a block of each launch, in order. Where the compiler has another number of launches, each counts as its largest one."""
    if compiled and len(compiled) != len(kernel.launches):
        compiled = [max(compiled, key=lambda c: (c.registers * c.threads, c.shared_bytes))] * len(kernel.launches)
    each: Sequence[Compiled | None] = compiled or [None] * len(kernel.launches)
    return tuple(
        launch_occupancy(kernel.name, launch, machine, registers=registers, schedule=schedule, compiled=c)
        for launch, c in zip(kernel.launches, each, strict=True)
    )


def launch_occupancy(
    name: str, launch: Launch, machine: Machine, *, registers: int | None = None, schedule: Mapping[str, Any] | None = None,
    compiled: Compiled | None = None,
) -> Occupancy:  # fmt: skip
    """The needs of a block of one launch; `compiled` is what a compiler says of it."""
    needs = needs_of(launch)
    threads = 1
    for extent in launch.threads:
        threads *= extent
    if machine.gpu is None:
        return _on_cpu(name, machine, threads, needs)
    if compiled is not None:
        needs, beside = _as_compiled(needs, compiled.shared_bytes), max(0, compiled.threads - threads) // WARP
        made = _on_gpu(name, machine.name, machine.gpu, threads, needs, compiled.registers, False, dict(schedule or {}), beside)
        return replace(made, by=compiled.by)
    estimated = registers if registers is not None else registers_of(launch, threads)
    beside = COPYING_WARPS if copies_by_engine(launch, machine.gpu) else 0
    needs = (*needs, *result_stages(launch, machine.gpu, needs, beside * WARP))
    return _on_gpu(name, machine.name, machine.gpu, threads, needs, estimated, registers is None, dict(schedule or {}), beside)


def _as_compiled(needs: tuple[Need, ...], shared_bytes: int) -> tuple[Need, ...]:
    """The tiles, and what the compiler added to them, of `shared_bytes` in all; one sum where tiles share bytes."""
    more = shared_bytes - sum(n.bytes for n in needs if n.scope == "shared")
    if more >= 0:
        return (*needs, Need("added by the compiler", (more,), "uint8", "shared", more)) if more else needs
    rest = tuple(n for n in needs if n.scope != "shared")
    return (Need("shared memory", (shared_bytes,), "uint8", "shared", shared_bytes), *rest) if shared_bytes else rest


def copies_by_engine(launch: Launch, gpu: Gpu) -> bool:
    """Whether a block gets warps of its own for the copies of its pipelined loops, which the tensor copy engine does (9.0)."""
    if gpu.capability != (9, 0) or any(extent % WARP for extent in launch.threads[:1]):
        return False
    loops = [n for n in walk(launch) if isinstance(n, PipelinedFor) and n.num_stages >= 1]
    return any(isinstance(n, Copy) and not n.src.buffer.is_on_chip and n.dst.buffer.scope == "shared" for loop in loops for n in walk(loop))


def compiled_occupancy(name: str, machine: Machine, *, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """How many blocks of a compiled kernel fit, from what its compiler says: registers of a thread, and bytes of shared memory of a block.

    Raises ValueError for a machine that is no GPU.
    """
    if machine.gpu is None:
        raise ValueError(f"{machine.name} is no GPU")
    needs = (Need("shared memory", (shared_bytes,), "uint8", "shared", shared_bytes),) if shared_bytes else ()
    return _on_gpu(name, machine.name, machine.gpu, threads, needs, registers, False, {})


# ---------------------------------------------------------------------------------------------- a GPU
def _on_gpu(
    name: str, machine: str, gpu: Gpu, threads: int, needs: tuple[Need, ...], registers: int, is_estimated: bool, schedule: Mapping[str, Any],
    beside: int = 0,
) -> Occupancy:  # fmt: skip
    """`beside` are warps that the compiler adds to those of the author's."""
    shared = sum(n.bytes for n in needs if n.scope == "shared")
    most = most_registers(gpu, threads)
    refusals = _refusals(gpu, threads, needs, shared, registers, most, schedule)
    used = min(registers, most)
    warps = -(-threads // WARP) + beside
    used = min(used, most_registers(gpu, warps * WARP))
    by_limit = {
        SHARED: gpu.shared_per_sm.bytes // _block_bytes(gpu, shared),
        REGISTERS: gpu.registers_per_sm.count // (warps * _warp_registers(gpu, used)),
        THREADS: gpu.max_warps.count // warps,
        BLOCKS: gpu.max_blocks.count,
    }
    blocks = 0 if refusals else max(1, min(by_limit.values()))
    limiter = min(by_limit, key=lambda k: by_limit[k])
    gauges = (
        Gauge(SHARED, shared, gpu.shared_per_block.bytes, "B"),
        Gauge(REGISTERS, registers, gpu.registers_per_thread.count, ""),
        Gauge(THREADS, threads, gpu.max_threads_per_block.count, ""),
    )
    step = "" if refusals else _next_step(gpu, blocks, by_limit, warps, shared, used)
    return Occupancy(
        name, machine, threads, shared, registers, is_estimated, needs, gauges, blocks, blocks * warps, gpu.max_warps.count, by_limit, limiter, step,
        refusals,
    )  # fmt: skip


def _block_bytes(gpu: Gpu, shared: int) -> int:
    """What a block takes of an SM's shared memory."""
    unit = gpu.shared_unit.count
    return max(unit, -(-(shared + gpu.shared_reserved.count) // unit) * unit)


def _warp_registers(gpu: Gpu, registers: int) -> int:
    unit = gpu.register_unit.count
    return -(-registers * WARP // unit) * unit


def most_registers(gpu: Gpu, threads: int) -> int:
    """The registers that a thread can have at most: the instruction set's limit, and an SM's registers shared by the block, in eights."""
    warps = -(-threads // WARP)
    share = gpu.registers_per_sm.count // warps // gpu.register_unit.count * gpu.register_unit.count // WARP
    return max(1, min(gpu.registers_per_thread.count, share))


def _refusals(
    gpu: Gpu, threads: int, needs: tuple[Need, ...], shared: int, registers: int, most: int, schedule: Mapping[str, Any]
) -> tuple[Refusal, ...]:
    out = []
    limit = gpu.shared_per_block.bytes
    tiles = [n for n in needs if n.scope == "shared"]
    if shared > limit:
        why = f"{' + '.join(map(str, tiles))} = {kib(shared)} > {kib(limit)} per block on {gpu.arch}"
        out.append(Refusal(SHARED, why, what_fits(tiles, limit, schedule)))
    if threads > gpu.max_threads_per_block.count:
        out.append(Refusal(THREADS, f"{threads} threads > {gpu.max_threads_per_block.count} per block on {gpu.arch}"))
    elif registers > most:
        largest = sorted((n for n in needs if n.scope != "shared"), key=lambda n: -n.bytes)[:3]
        share = f" of a block of {threads}" if most < gpu.registers_per_thread.count else ""
        why = (
            f"about {registers} registers a thread > {most}{share} on {gpu.arch}: {' + '.join(map(str, largest))} over {threads} threads would spill"
        )
        out.append(Refusal(REGISTERS, why, _wider(gpu, threads, registers)))
    return tuple(out)


def _wider(gpu: Gpu, threads: int, registers: int) -> str:
    """How many threads would hold the fragments without spilling: each then holds half as much, beside what it needs anyway."""
    fixed, count = 40, threads
    while count * 2 <= gpu.max_threads_per_block.count:
        registers, count = (registers - fixed) // 2 + fixed, count * 2
        if registers <= most_registers(gpu, count):
            return f"threads={count} fits"
    return ""


def _next_step(gpu: Gpu, blocks: int, by_limit: Mapping[str, int], warps: int, shared: int, registers: int) -> str:
    """What it takes to run one block more: every resource that admits no more has to shrink. "" where nothing is to be gained."""
    want = blocks + 1
    if want * warps > gpu.max_warps.count or want > gpu.max_blocks.count:
        return ""
    steps = []
    if by_limit[SHARED] < want:
        unit = gpu.shared_unit.count
        left = gpu.shared_per_sm.bytes // want // unit * unit - gpu.shared_reserved.count
        steps.append(f"-{kib(shared - left)} shared")
    if by_limit[REGISTERS] < want:
        unit = gpu.register_unit.count
        left = gpu.registers_per_sm.count // (want * warps) // unit * unit // WARP
        steps.append(f"-{registers - left} registers a thread")
    return f"{' and '.join(steps)} -> {want} blocks" if steps else ""


# ---------------------------------------------------------------------------------------------- a CPU
def _on_cpu(name: str, machine: Machine, threads: int, needs: tuple[Need, ...]) -> Occupancy:
    """The tiles of a block against the caches of its core: stages share one buffer there, since nothing is copied ahead."""
    tiles = tuple(n for n in needs if n.scope in ("shared", "fragment"))
    used = sum(n.bytes // n.copies for n in tiles)
    gauges = tuple(Gauge(level.name, used, level.capacity.bytes, "B") for level in machine.caches if level.capacity is not None)
    home = next((g for g in gauges if g.share <= 1), None)
    if not used:
        sentence = "no tiles: a block works in registers"
    elif home is None:
        sentence = f"the tiles of a block take {kib(used)}, more than any cache has"
    else:
        before = [g.name for g in gauges[: gauges.index(home)]]
        spill = f", more than {' and '.join(before)} has" if before else ""
        sentence = f"the tiles of a block take {kib(used)}{spill}: they stay in {home.name} ({home.share * 100:.0f} % of {kib(home.capacity)})"
    return Occupancy(name, machine.name, threads, used, 0, True, tiles, gauges, 1, limiter=home.name if home else "DRAM", next_step=sentence)
