"""Bulk copies between global and shared memory through tensor maps (TMA, sm_90), and plain ones of bytes in a row.

Coordinates count elements, innermost first. A load ends at an mbarrier, whose phase must expect the bytes of the whole box; what lies outside the
tensor is filled, and counts. Stores and reductions form groups of the thread that issues them.
"""

from __future__ import annotations

from .function import DeviceFunction, pair

_MAP = "const twb_tensor_map *map"


def tma_functions() -> tuple[DeviceFunction, ...]:
    """Loads (also into several blocks of a cluster), stores and reductions of 1 to 5 dimensions; copies without a map; groups."""
    tensor = [f for rank in range(1, 6) for f in (_load(rank), _multicast(rank), *(_store(rank, op) for op in ("", "add", "min", "max")))]
    sm = '"r"((uint32_t)__cvta_generic_to_shared({}))'
    bulk_load = f'asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: {sm.format("to")}, "l"(from), "r"(bytes), {sm.format("bar")} : "memory");'
    bulk_store = (
        f'asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" :: "l"(to), {sm.format("from")}, "r"(bytes) : "memory");'
    )
    return (
        pair(
            f"void twb_tma_prefetch({_MAP})",
            'asm volatile("prefetch.tensormap [%0];" :: "l"((uint64_t)map) : "memory");',
            "",
            "Fetch a tensor map into its cache.",
            least_arch=90,
        ),
        *tensor,
        pair(
            "template <class D, class S> void twb_bulk_load(D to, S from, uint32_t bytes, twb_shared<uint64_t> bar)",
            bulk_load,
            "twbe_bulk(to.at, to.high, (void *)from.p, from.b, bytes, bar.at, 0);",
            "Start to copy `bytes` in a row to shared memory (all multiples of 16).",
            least_arch=90,
        ),
        pair(
            "template <class D, class S> void twb_bulk_store(D to, S from, uint32_t bytes)",
            bulk_store,
            "twbe_bulk(from.at, from.high, (void *)to.p, to.b, bytes, 0, 1);",
            "Start to copy `bytes` in a row to global memory (all multiples of 16).",
            least_arch=90,
        ),
        pair(
            "void twb_bulk_commit()",
            'asm volatile("cp.async.bulk.commit_group;" ::: "memory");',
            "twbe_bulk_commit();",
            "Close this thread's group of bulk stores.",
            least_arch=90,
        ),
        pair(
            "template <int N> void twb_bulk_wait_read()",
            'asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(N) : "memory");',
            "twbe_bulk_wait(N);",
            "Wait until all but the N newest groups have read shared memory.",
            least_arch=90,
        ),
        pair(
            "template <int N> void twb_bulk_wait()",
            'asm volatile("cp.async.bulk.wait_group %0;" :: "n"(N) : "memory");',
            "twbe_bulk_wait(N);",
            "Wait until all but the N newest groups have written global memory.",
            least_arch=90,
        ),
    )


def _coordinates(rank: int) -> tuple[str, str, str]:
    """Parameters, a list of them, and the operands of inline assembly."""
    names = [f"c{i}" for i in range(rank)]
    return ", ".join(f"int {n}" for n in names), ", ".join(names), ", ".join(f'"r"({n})' for n in names)


def _slots(first: int, rank: int) -> str:
    return "{" + ", ".join(f"%{first + i}" for i in range(rank)) + "}"


def _load(rank: int) -> DeviceFunction:
    parameters, names, operands = _coordinates(rank)
    op = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {_slots(4, rank)}], [%2], %3;"
    gpu = f'asm volatile("{op}" :: "r"((uint32_t)__cvta_generic_to_shared(to)), "l"((uint64_t)map), "r"((uint32_t)__cvta_generic_to_shared(bar)), "l"(hint), {operands} : "memory");'
    host = f"int c[] = {{{names}}}; twbe_tma_load(to.at, to.high, map, bar.at, c, {rank}, 0);"
    head = f"template <class D> void twb_tma_load_{rank}d(D to, const twb_tensor_map *map, twb_shared<uint64_t> bar, {parameters}, uint64_t hint = 0x1000000000000000ull)"
    return pair(head, gpu, host, f"Start to load a box of a tensor of rank {rank}.", least_arch=90)


def _multicast(rank: int) -> DeviceFunction:
    parameters, names, operands = _coordinates(rank)
    op = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%0], [%1, {_slots(5, rank)}], [%2], %3, %4;"
    gpu = f'asm volatile("{op}" :: "r"((uint32_t)__cvta_generic_to_shared(to)), "l"((uint64_t)map), "r"((uint32_t)__cvta_generic_to_shared(bar)), "h"(ranks), "l"(hint), {operands} : "memory");'
    host = f"int c[] = {{{names}}}; twbe_tma_load(to.at, to.high, map, bar.at, c, {rank}, ranks);"
    head = f"template <class D> void twb_tma_load_multicast_{rank}d(D to, const twb_tensor_map *map, twb_shared<uint64_t> bar, uint16_t ranks, {parameters}, uint64_t hint = 0x1000000000000000ull)"
    return pair(head, gpu, host, f"Start to load a box of rank {rank} into the same place of every block whose bit is in `ranks`.", least_arch=90)


def _store(rank: int, op: str) -> DeviceFunction:
    parameters, names, operands = _coordinates(rank)
    start = (
        f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{op}.tile.bulk_group"
        if op
        else f"cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group"
    )
    gpu = f'asm volatile("{start} [%0, {_slots(2, rank)}], [%1];" :: "l"((uint64_t)map), "r"((uint32_t)__cvta_generic_to_shared(from)), {operands} : "memory");'
    mode = {"": 1, "add": 2, "min": 3, "max": 4}[op]
    host = f"int c[] = {{{names}}}; twbe_tma_store(map, from.at, from.high, c, {rank}, {mode});"
    name = f"twb_tma_{'reduce_' + op if op else 'store'}_{rank}d"
    return pair(
        f"template <class S> void {name}(const twb_tensor_map *map, S from, {parameters})",
        gpu,
        host,
        f"Start to {op or 'store'} a box of rank {rank} {'into' if op else 'to'} global memory.",
        least_arch=90,
    )
