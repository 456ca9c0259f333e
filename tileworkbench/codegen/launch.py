"""C around the blocks: one parallel region a launch, workers that stay on their processors, and tile memory that grows and stays.

Blocks are handed out one by one, so a core that another program slows down takes fewer. The caller's thread is never bound: it belongs to Python, and
what it starts would inherit its processors. Workers are bound, by themselves and once, if a team has as many threads as there are processors: after
an idle time the system would wake two threads on one of them, and the barrier would wait for a time slice.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir.lowered import Grid
from .writer import Writer

SCRATCH = """\
extern void *aligned_alloc(__SIZE_TYPE__, __SIZE_TYPE__); extern void free(void *); extern int madvise(void *, __SIZE_TYPE__, int);
static _Thread_local char *twb_area; static _Thread_local int64_t twb_area_bytes;
/* This core's tile memory: it grows, and stays for the next call. */
TWB_RARE static char *twb_own_area(int64_t bytes) {
  if (twb_area_bytes < bytes) {
    const int64_t page = bytes < 1048576 ? 4096 : 2097152; /* small tiles do not fill a huge page */
    free(twb_area);
    twb_area_bytes = (bytes + page - 1) & -page;
    twb_area = aligned_alloc(page, twb_area_bytes);
    if (!twb_area) twb_area_bytes = 0;
    else if (page > 4096) madvise(twb_area, twb_area_bytes, 14);
  }
  return twb_area;
}
static char *(*twb_scratch)(int64_t) = twb_own_area;
/* Take the tile memory of another kernel of this process; gives back whose is in use. */
TWB_RARE void *twb_share(void *other) {
  if (other) twb_scratch = (char *(*)(int64_t))other;
  return (void *)twb_scratch;
}
"""
PIN = """\
#if defined(_OPENMP) && defined(__linux__)
extern int sched_getaffinity(int, __SIZE_TYPE__, void *), sched_setaffinity(int, __SIZE_TYPE__, const void *);
extern int omp_get_thread_num(void), omp_get_num_threads(void);
/* Worker n of a team as large as the machine stays on the n-th processor that it may use. Not "cold": all that is near the call would be, too. */
TWB_RARE static __attribute__((noinline)) void twb_pin(void) {
  static _Thread_local int seen;
  const int number = omp_get_thread_num(), team = omp_get_num_threads();
  if (number == 0 || seen == team) return;
  seen = team;
  uint64_t mask[128] = {0}, own[128] = {0};
  int count = 0, place = -1;
  if (sched_getaffinity(0, sizeof mask, mask)) return;
  for (int i = 0; i < 8192; ++i) {
    if (mask[i / 64] >> i % 64 & 1 && count++ == number) place = i;
  }
  if (count != team || place < 0) return;
  own[place / 64] = (uint64_t)1 << place % 64;
  sched_setaffinity(0, sizeof own, own);
}
#else
static void twb_pin(void) {}
#endif
"""


def region(out: Writer, grid: Grid, names: list[str], extents: list[str], call: str, after: Callable[[], None]) -> bool:
    """The loops over blocks, x innermost, and what `after` writes, in a parallel region if there can be enough blocks; returns whether it is one."""
    enough = grid.enough_blocks
    if enough is not None:
        blocks = " * ".join(f"({e})" if " " in e else e for e in extents)
        few = f" && {blocks} >= {enough}" if enough else ""
        out.line(f"#pragma omp parallel num_threads(threads) if (threads > 1{few})")
        out.line("{")
        out.depth += 1
        out.line("twb_pin();")
        collapse = f" collapse({len(names)})" if len(names) > 1 else ""
        out.line(f"#pragma omp for{collapse} schedule(dynamic, 1) nowait")
    for name, extent in reversed(list(zip(names, extents, strict=True))):
        out.line(f"for (int64_t {name} = 0; {name} < {extent}; ++{name})")
        out.depth += 1
    out.line(f"{call};")
    out.depth -= len(names)
    after()
    if enough is not None:
        out.depth -= 1
        out.line("}")
    return enough is not None
