"""A report's numbers by name, for assertions such as `--expect "dram.bytes <= 1.05 * compulsory"`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .report import Report

Fact = tuple[float, str]


def facts_of(r: Report) -> dict[str, Fact]:
    """Names for assertions, each (value, unit) in base units: B, s, FLOP, FLOP/s, B/s, FLOP/B, or "" for a share or a count.

    Bytes of a level are those of a first launch. On a GPU "shared.need" is what a block asks for, "occupancy" the share of warps that run.
    "dram.counted.read" and the like are what hardware counters saw, where they were read.
    """
    out: dict[str, Fact] = {
        "flops": (float(r.counts.total_flops), "FLOP"),
        "compulsory": (float(r.counts.compulsory_bytes), "B"),
        "asked.bytes": (float(r.counts.asked_bytes), "B"),
        "global.bytes": (float(r.counts.global_bytes), "B"),
        "time": (r.time.value, "s"),
        "time.predicted": (r.predicted.value, "s"),
        "rate": (r.rate.value, "FLOP/s"),
        "roof": (max(r.shares.values()), ""),
        "compute.roof": (r.shares["compute"], ""),
    }
    for level in r.levels:
        name = level.name.lower()
        out[f"{name}.bytes"] = (level.cold_bytes, "B")
        out[f"{name}.worst"] = (level.worst_bytes, "B")
        out[f"{name}.roof"] = (r.shares[level.name], "")
        out[f"{name}.bandwidth"] = (level.bytes / r.time.value if r.time.value else 0.0, "B/s")
        out[f"{name}.intensity"] = (level.intensity or 0.0, "FLOP/B")
        if r.counters is not None:
            seen = {"counted.read": r.counters.bytes(level.name), "counted.written": r.counters.written(level.name)}
            out |= {f"{name}.{what}": (n, "B") for what, n in seen.items() if n is not None}
    if r.occupancy is not None and r.machine.is_gpu:
        out["shared.need"] = (float(r.occupancy.shared_bytes), "B")
        out["occupancy"] = (r.occupancy.share, "")
        out["blocks.per.sm"] = (float(r.occupancy.blocks), "")
        out["registers"] = (float(r.occupancy.registers), "")
    return out
