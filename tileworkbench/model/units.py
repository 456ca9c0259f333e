"""Which unit does which arithmetic, and how long each is busy: matrix products on tensor units, the rest on FMA lanes, exponentials on special units.

exp, division and the like are not FLOP. On a CPU each takes vector instructions; on a GPU a result of the special function unit and some FMA slots.
"""

from __future__ import annotations

from ..base.hardware import Machine
from .counts import Counts

# Vector instructions that one value of each kind takes on a CPU, where a multiply-add takes one. exp: a degree-5 polynomial with range reduction; the
# rest are assumptions of the same order. They enter the predicted time only.
SPECIAL_COST = {"exp": 12, "log": 14, "div": 4, "sqrt": 4, "min/max": 1, "other": 20}
# On a GPU: (results of the special function unit, FMA slots) of each. exp2 and log2 are one result each with a multiplication; a division is
# a reciprocal with a correction; min and max run at half the rate of an FMA (CUDA C++ Programming Guide, arithmetic instructions); "other": assumed.
GPU_SPECIAL = {"exp": (1, 2), "log": (1, 2), "div": (1, 8), "sqrt": (1, 4), "min/max": (0, 2), "other": (2, 12)}

Unit = tuple[str, str]  # ("tensor", "float16>float32"), ("fma", "float32"), ("sfu", "exp")


def work_by_unit(counts: Counts, machine: Machine) -> dict[Unit, int]:
    """FLOP by unit and dtype, and under "sfu" the numbers of exponentials, divisions and so on (no FLOP)."""
    out: dict[Unit, int] = {}
    for dtype, n in counts.flops.items():
        products = counts.gemm_flops.get(dtype, 0)
        for unit, amount in ((machine.find_peak(dtype, "tensor").unit, products), ("fma", n - products)):
            if amount:
                out[unit, dtype] = out.get((unit, dtype), 0) + amount
    return out | {("sfu", kind): n for kind, n in counts.special.items() if n}


def unit_seconds(counts: Counts, machine: Machine, threads: int) -> dict[str, float]:
    """Least seconds of each unit of `threads` cores. Units of a GPU work side by side; a CPU has one, "fma", and on some a "tensor" unit."""
    out: dict[str, float] = {}
    slots = 0.0
    for (unit, kind), amount in work_by_unit(counts, machine).items():
        if unit == "sfu":
            results, more = GPU_SPECIAL[kind] if machine.is_gpu else (0, SPECIAL_COST[kind])
            rate = machine.special_rate(threads)
            slots += more * amount
            if results and rate is not None:
                out["sfu"] = out.get("sfu", 0.0) + results * amount / (rate.value * 1e9)
        else:
            out[unit] = out.get(unit, 0.0) + amount / (machine.peak(kind, threads, unit).value * 1e9)
    if slots:
        lanes = "float32" if machine.is_gpu else main_dtype(counts)
        out["fma"] = out.get("fma", 0.0) + 2 * slots / (machine.peak(lanes, threads, "" if not machine.is_gpu else "fma").value * 1e9)
    return out


def compute_seconds(counts: Counts, machine: Machine, threads: int) -> float:
    """The least time of the arithmetic: on a GPU the busiest unit's, on a CPU, whose ports are shared, the sum."""
    seconds = unit_seconds(counts, machine, threads)
    return max(seconds.values(), default=0.0) if machine.is_gpu else sum(seconds.values())


def main_dtype(counts: Counts) -> str:
    """The dtype of most of the FLOP; float32 where there is none."""
    return max(counts.flops, key=lambda k: counts.flops[k], default="float32")


def main_unit(counts: Counts, machine: Machine) -> Unit:
    """The unit and dtype of most of the FLOP."""
    work = {k: n for k, n in work_by_unit(counts, machine).items() if k[0] != "sfu"}
    return max(work, key=lambda k: work[k], default=("fma", main_dtype(counts)))
