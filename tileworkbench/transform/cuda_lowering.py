"""The way from tile IR to what the CUDA target emits: one thread's program.

Each step is a pass of its own file; those before `copies_as_loops` and after `spread_threads` are the C target's too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Concatenate, ParamSpec

from ..ir import lowered_text as _lowered_text  # noqa: F401  # the printer shows what these passes make
from ..ir.stmt import Kernel
from .chain_products import chain_products
from .copies_as_loops import copies_as_loops
from .decide_branches import decide_branches
from .drop_unused import drop_unused
from .expand_asserts import expand_asserts
from .expand_atomics import expand_atomics
from .expand_collectives import expand_collectives
from .expand_prints import expand_prints
from .fit_clusters import fit_clusters
from .flatten_accesses import flatten_accesses
from .form_tiles import form_tiles
from .hand_over_sends import hand_over_sends
from .index_loops import index_loops
from .insert_barriers import insert_barriers
from .keep_values import keep_values
from .late_sums import late_sums
from .lay_tiles import lay_tiles
from .loops_of_roles import loops_of_roles
from .lowering import Step
from .meet_outside import meet_outside
from .narrow_indices import narrow_indices
from .order_atomics import order_atomics
from .overlap_products import overlap_products
from .own_tiles import own_tiles
from .pack_nibbles import pack_nibbles
from .pad_rows import pad_rows
from .pipeline_copies import pipeline_copies
from .place_threads import place_threads
from .promote_sums import promote_sums
from .raster_blocks import raster_blocks
from .refuse_explicit import refuse_explicit
from .roles_of_threads import roles_of_threads
from .send_tiles import send_tiles
from .share_tiles import share_tiles
from .spare_digits import spare_digits
from .specialise_warps import specialise_warps
from .split_grid_syncs import split_grid_syncs
from .spread_groups import spread_groups
from .spread_threads import spread_threads
from .spread_together import spread_together
from .start_copies import start_copies
from .start_early import start_early
from .start_sums import start_sums
from .take_turns import take_turns
from .trade_in_quads import trade_in_quads
from .unroll_explicit import unroll_explicit
from .widen_accesses import widen_accesses
from .widen_floats import widen_floats

Facts = ParamSpec("Facts")


@cache
def cuda_steps(arch: int, aligned: bool = True) -> tuple[Step, ...]:
    """The passes for compute capability `arch` (80; 90 is with the features of sm_90a).

    `aligned`: arrays of a call begin at multiples of 16 bytes; if not, each element of them is an access of its own.
    """
    return (
        Step(for_arch(refuse_explicit, arch), because="what a target has not is said before anything is proved"),
        Step(for_arch(fit_clusters, arch)),
        Step(for_arch(roles_of_threads, arch), because="threads that only choose roles need not be visible to the steps below"),
        Step(index_loops, because="proofs and loop ends below are about the index dtype"),
        Step(unroll_explicit, because="ends of loops must be constants of the index dtype"),
        Step(loops_of_roles),
        Step(expand_asserts),
        Step(
            for_arch(expand_atomics, aligned and arch == 90), because="makes element accesses, which flatten_accesses must guard, and parallel loops"
        ),
        Step(decide_branches, because="what is never done must not stop a proof"),
        Step(order_atomics, because="lets a block come together, which spread_threads must see"),
        Step(own_tiles, because="insert_barriers takes an operation for one of the whole block"),
        Step(keep_values),
        Step(split_grid_syncs, because="own_tiles leaves single elements of threads' own buffers, which get memory here"),
        Step(insert_barriers, because="speaks of the author's threads; spread_threads knows where a block's program needs barriers"),
        Step(meet_outside, because="insert_barriers puts them where they are needed, also into branches of single threads"),
        Step(expand_collectives, because="what a block finds out passes through a tile, with barriers of its own"),
        Step(raster_blocks),
        Step(lay_tiles, because="form_tiles must leave alone what the author laid out"),
        Step(for_arch(form_tiles, arch), because="what runs ahead is written as it will lie"),
        Step(for_arch(late_sums, arch), because="speaks of loops that nobody has divided yet"),
        Step(for_arch(pad_rows, arch if aligned else 80), because="the tensor copy engine takes what this makes"),
        Step(for_arch(specialise_warps, arch if aligned else 80), because="speaks of whole copies"),
        Step(for_arch(promote_sums, arch), because="knows the registers of each role; a product whose sums leave the matrix unit is waited for"),
        Step(for_arch(start_sums, arch), because="a product whose sums leave the matrix unit begins nothing"),
        Step(for_arch(overlap_products, arch), because="speaks of the loops of consumers"),
        Step(for_arch(chain_products, arch), because="takes the loops of consumers that do more than multiply"),
        Step(for_arch(take_turns, arch), because="speaks of loops that chain_products has turned"),
        Step(for_arch(pipeline_copies, arch, aligned), because="takes the loops that specialise_warps leaves"),
        Step(share_tiles, because="speaks of whole tiles; spread_threads places barriers between those that share bytes"),
        Step(for_arch(send_tiles, arch if aligned else 80), because="what is left of shared memory after tiles have their places is for stages"),
        Step(hand_over_sends),
        Step(expand_atomics, because="takes the sums that send_tiles leaves"),
        Step(for_arch(start_copies, aligned)),
        Step(copies_as_loops, because="a copy is shared out like any other parallel loop"),
        Step(for_arch(spread_together, min(arch, 89)), because="speaks of threads that the author sees; spread_threads makes others"),
        Step(for_arch(spread_groups, arch if aligned else -arch), because="takes the launches whose author says which warp groups do what"),
        Step(for_arch(spread_threads, arch), because="everything after it is one thread's program"),
        Step(flatten_accesses, because="proofs need the author's indices; later steps make offsets that are inside by construction"),
        Step(expand_prints, because="makes flat accesses, also to 4-bit elements"),
        Step(pack_nibbles, because="speaks of flat offsets: which half of which byte"),
        Step(for_arch(widen_accesses, aligned), because="offsets say what lies side by side; place_threads counts the arrays of a thread"),
        Step(trade_in_quads, because="sees what threads store of a row"),
        Step(for_arch(start_early, arch), because="comes before all that a thread does"),
        Step(place_threads, because="the accesses that are left say which tiles there are"),
        Step(drop_unused, because="proofs see through bindings, so many are not read any more"),
        Step(widen_floats, because="after the last step that makes arithmetic on floats"),
        Step(spare_digits, because="sees which values are rounded"),
        Step(narrow_indices, because="after the last step that speaks of indices as such"),
    )


def for_arch(run: Callable[Concatenate[Kernel, Facts], Kernel], *facts: Facts.args, **more: Facts.kwargs) -> Callable[[Kernel], Kernel]:
    """A pass that depends on the architecture or other facts, for one."""

    @wraps(run)
    def step(kernel: Kernel) -> Kernel:
        return run(kernel, *facts, **more)

    return step
