"""What one thread of a GPU does beyond loops and numbers: calls of device functions, and blocks whose warps have different tasks.

`DeviceCall` and `DeviceValue` call a function of `device/` by name. Their arguments are numbers, addresses (`AddressOf`, after flatten_accesses
`Address`), registers of the thread (`Registers`) and tensor maps (`MapOf`). Whoever makes such a call also sees to its barriers: passes that place
barriers look at loads, stores and tile operations only.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..base.dtypes import DType
from .expr import Buffer, Expr
from .stmt import Body, Region, Stmt

GRID_LAUNCH = "twb_grid_launch"  # from here on the kernel behind this one in the stream may start
GRID_WAIT = "twb_grid_wait"  # a launch that calls it may start before the kernel ahead of it in the stream has ended
SMS = "twb_sms"  # in a grid's extents: the multiprocessors of the device, for grids that stay


@dataclass(frozen=True, slots=True)
class Registers(Expr):
    """`count` elements of type `word` of the thread's array `buffer`, from its element `offset` on: read and written by the call.

    `word` may be wider than the array's elements: two float16 are a uint32. `offset` is then a multiple of the elements in a word.
    """

    buffer: Buffer
    offset: Expr
    count: int
    word: DType

    @property
    def dtype(self) -> DType:
        return self.word


@dataclass(frozen=True, slots=True)
class MapOf(Expr):
    """The tensor map of the launch's view number `number`, as an argument."""

    number: int
    type: DType = DType("uint64")

    @property
    def dtype(self) -> DType:
        return self.type


@dataclass(frozen=True, slots=True)
class DeviceValue(Expr):
    """What a device function returns; `constants` are its template arguments. The call has no effect."""

    name: str
    args: tuple[Expr, ...]
    type: DType
    constants: tuple[int, ...] = ()

    @property
    def dtype(self) -> DType:
        return self.type


@dataclass(frozen=True, slots=True)
class DeviceCall(Stmt):
    """Call a device function for its effect, in every thread that comes here; `constants` are its template arguments."""

    name: str
    args: tuple[Expr, ...] = ()
    constants: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Specialised(Stmt):
    """A whole launch in two roles. The first thread of the block does `setup`, all meet; then the launch's threads do `consumers`, a block's program,
    while one thread beyond them does `producer`, a thread's program, and one of another warp `storer`, if that does anything. `registers`: how many
    each thread of (producer, consumers) may have; (0, 0): as they are. `reaches_out`: blocks of the cluster touch each other's memory, so they come
    together before and after."""

    setup: Body
    producer: Body
    consumers: Body
    registers: tuple[int, int] = (0, 0)
    reaches_out: bool = False
    storer: Body = ()


def has_roles(body: Body) -> bool:
    """Whether a launch's body is done in roles."""
    return any(isinstance(s, Specialised) for s in body)


@dataclass(frozen=True, slots=True)
class WaitProducts(Stmt):
    """Wait until at most the `left` newest asynchronous products run on; the `results` may be touched again.

    `after`: fragments whose last values are to be computed before it, beside the products.
    """

    left: int
    results: tuple[Region, ...] = ()
    after: tuple[Buffer, ...] = ()
