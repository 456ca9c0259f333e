"""The way from tile IR to what the C target emits: read this page first.

Each step is a pass of its own file, whose docstring says what it turns into what. `run_steps` runs them and shows every step to an observer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..ir import lowered_text as _lowered_text  # noqa: F401  # the printer shows what these passes make
from ..ir.stmt import Kernel
from .absorb_fills import absorb_fills
from .convert_rows import convert_rows
from .decide_branches import decide_branches
from .dot_rows import dot_rows
from .drop_unused import drop_unused
from .end_streams import end_streams
from .exp_rows import exp_rows
from .expand_asserts import expand_asserts
from .expand_atomics import expand_atomics
from .expand_tiles import expand_tiles
from .fetch_pieces import fetch_pieces
from .fetch_rows import fetch_rows
from .fission_threads import fission_threads
from .fit_clusters import fit_clusters
from .flatten_accesses import flatten_accesses
from .fold_rows import fold_rows
from .forward_copies import forward_copies
from .fuse_rows import fuse_rows
from .index_loops import index_loops
from .insert_barriers import insert_barriers
from .jam_rows import jam_rows
from .join_rows import join_rows
from .join_sums import join_sums
from .keep_values import keep_values
from .lower_parallel import lower_parallel
from .place_tiles import place_tiles
from .read_operands_in_place import read_operands_in_place
from .refuse_explicit import refuse_explicit
from .split_grid_syncs import split_grid_syncs
from .split_parallel import split_parallel
from .stream_stores import stream_stores
from .strip_rows import strip_rows
from .sum_in_place import sum_in_place
from .sum_squares import sum_squares
from .turn_tiles import turn_tiles
from .weigh_launches import weigh_launches
from .widen_floats import widen_floats


@dataclass(frozen=True, slots=True)
class Step:
    """One pass and, where its place matters, why it stands there."""

    run: Callable[[Kernel], Kernel]
    because: str = ""

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def about(self) -> str:
        """What the pass is for: the first line of its page."""
        page = sys.modules[self.run.__module__].__doc__ or self.run.__doc__ or ""
        return page.strip().partition("\n")[0]


Observer = Callable[[Step, Kernel, Kernel], None]

C_STEPS: tuple[Step, ...] = (
    Step(refuse_explicit, because="what a target has not is said before anything is proved"),
    Step(fit_clusters),
    Step(index_loops, because="proofs and loop ends below are about the index dtype"),
    Step(expand_asserts),
    Step(expand_atomics, because="makes element accesses, which flatten_accesses must guard; and parallel loops, which fission_threads keeps whole"),
    Step(insert_barriers),
    Step(fission_threads, because="speaks of the author's statements; everything after it knows no threads"),
    Step(absorb_fills),
    Step(keep_values),
    Step(split_grid_syncs, because="fission_threads gives per-thread variables memory, which may have to outlive a launch"),
    Step(decide_branches, because="what is never done must not stop a proof"),
    Step(forward_copies, because="its proofs are about whole tiles and the author's loops, which the next steps take apart"),
    Step(split_parallel, because="flatten_accesses folds the divisions that this makes exact"),
    Step(read_operands_in_place, because="speaks of whole copies and regions, which expand_tiles takes apart"),
    Step(sum_in_place, because="speaks of the products that read_operands_in_place leaves, whose copies it would double"),
    Step(flatten_accesses, because="proofs need the author's indices; later steps make offsets that are inside by construction"),
    Step(expand_tiles),
    Step(turn_tiles, because="what is left of parallel loops becomes vector loops next"),
    Step(lower_parallel, because="serial loops inside parallel ones must be `Loop`s, which expand_tiles makes"),
    Step(fuse_rows, because="vector loops must be made: what they hoist stands in the loop over rows"),
    Step(strip_rows, because="takes what fuse_rows leaves, and makes loops that fuse_rows would join"),
    Step(join_rows, because="speaks of the strips that strip_rows makes"),
    Step(join_sums, because="a row and its sum stand side by side only when loops over rows are one"),
    Step(jam_rows, because="joined sums are what it takes together"),
    Step(dot_rows, because="speaks of the rows that jam_rows takes together"),
    Step(fold_rows, because="takes what join_sums leaves: reductions of rows that were there before"),
    Step(sum_squares, because="rows that are summed side by side need no sums of their own"),
    Step(stream_stores, because="speaks of the vector loops that the steps before leave"),
    Step(fetch_rows, because="asks beside the calls of sum_squares and in the pieces of stream_stores"),
    Step(fetch_pieces, because="leaves alone what fetch_rows has asked for"),
    Step(drop_unused, because="proofs see through bindings, so many are not read any more"),
    Step(widen_floats, because="after the last step that makes arithmetic"),
    Step(convert_rows, because="widen_floats leaves one cast around what is stored"),
    Step(exp_rows, because="takes what every step before may still join, fetch for or convert"),
    Step(place_tiles, because="expand_tiles adds tiles"),
    Step(end_streams, because="speaks of grids, which place_tiles makes"),
    Step(weigh_launches, because="counts what blocks really do, after every step that changes it"),
)


def run_steps(kernel: Kernel, steps: Iterable[Step] = C_STEPS, observe: Observer | None = None) -> Kernel:
    """Run `steps` in order; `observe(step, before, after)` sees each one."""
    for step in steps:
        before, kernel = kernel, step.run(kernel)
        if observe is not None:
            observe(step, before, kernel)
    return kernel


def without_element_copies(kernel: Kernel) -> Kernel:
    """For predictions, the first tile steps of C_STEPS: tiles that only carry elements are not made."""
    for step in (absorb_fills, decide_branches, forward_copies):
        kernel = step(kernel)
    return kernel


def without_operand_copies(kernel: Kernel) -> Kernel:
    """For predictions, the next ones: products read and sum in place. No array is passed twice."""
    return sum_in_place(read_operands_in_place(kernel), asks=False)


def lower(kernel: Kernel) -> Kernel:
    """The kernel as the C target emits it."""
    return run_steps(kernel)
