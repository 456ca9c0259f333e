"""A lowered kernel as CUDA text: a `__global__` function for each launch, which runs one thread. It decides nothing.

The functions that it calls are those of `device/`; their text is put in front by whoever compiles.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..analysis.access import strides
from ..analysis.alignment import alignments
from ..analysis.uses import uses
from ..base.dtypes import BOOL, DType
from ..base.errors import InternalError, UnsupportedError
from ..ir.build import index, mul
from ..ir.device import GRID_WAIT, DeviceCall, DeviceValue, MapOf, Registers
from ..ir.expr import Buffer, CallExtern, Const, Expr, Select, Var
from ..ir.lowered import Address, AllocateGlobal, Declare, Element, Fail, Grid, LoadVector, Loop, PrintLine, SetElement, StoreVector, Tile
from ..ir.node import replace, walk
from ..ir.stmt import Body, Break, Collective, Continue, Evaluate, If, Kernel, Let, Return, ScalarParam, Stmt, Sync, TensorParam, While
from ..ir.tile_form import TensorView
from .c_names import c_name
from .c_statements import CStatements, asserts_of
from .clib import c_type, suffix
from .cuda_source import CudaKernel, CudaSource, Number, Parameter, Pointer, RunKernel, TensorMap

_TYPES = {"f16": "twb_f16", "bf16": "twb_bf16", "e4m3": "twb_e4m3", "e5m2": "twb_e5m2"}
_VOTES = {"any": "twb_any", "all": "twb_all", "ballot": "twb_ballot"}


def emit_cuda(kernel: Kernel, why_missing: Callable[[str], str]) -> CudaSource:
    """CUDA text for a lowered kernel. `why_missing` says of a device function why it cannot be called, or "". Raises: UnsupportedError for one."""
    return _Emitter(kernel, why_missing).source()


def cuda_type(dtype: DType) -> str:
    """The type of one element."""
    return "bool" if dtype == BOOL else _TYPES.get(suffix(dtype)) or c_type(dtype)


def tensor_map(view: TensorView) -> TensorMap:
    """The parameter for a view: innermost dim first, strides in bytes."""
    buffer = view.buffer
    size = buffer.type.bits // 8
    steps = tuple(mul(step, index(size)) for step in strides(buffer)[:-1])
    return TensorMap(buffer.name, str(buffer.type), buffer.shape[::-1], steps[::-1], view.box[::-1], view.row_bytes)


class _Emitter(CStatements):
    def __init__(self, kernel: Kernel, why_missing: Callable[[str], str]) -> None:
        super().__init__()
        self.kernel, self.why_missing = kernel, why_missing
        self.viewed: set[Buffer] = set()  # buffers of the function that another one is a view of
        self.kernels: list[CudaKernel] = []
        self.allocated: list[Buffer] = []
        self.maps: tuple[str, ...] = ()  # names of the tensor maps of the launch that is written

    def source(self) -> CudaSource:
        """The whole text."""
        body = self.host(self.kernel.body, ())
        is_flat = all(isinstance(stmt, RunKernel) for stmt in body)
        theirs = "".join(text.rstrip("\n") + "\n" for text in self.kernel.imports)
        text, lines = theirs + self.out.text(), {number + theirs.count("\n"): span for number, span in self.out.spans.items()}
        flags = ("--device-as-default-execution-space",) if theirs else ()  # plain C functions run on the device
        host = () if is_flat else body
        return CudaSource(
            text, tuple(self.kernels), flags=flags, asserts=asserts_of(self.kernel), lines=lines, host=host, workspaces=tuple(self.allocated)
        )

    def host(self, body: Body, bound: tuple[Var, ...]) -> Body:
        """The host program of a host-level body, in whose place `bound` is visible; writes the function of every launch in it."""
        out: list[Stmt] = []
        for stmt in body:
            match stmt:
                case Grid():
                    out.append(RunKernel(len(self.kernels), span=stmt.span))
                    self.kernels.append(self.function(stmt, bound))
                case AllocateGlobal(buffer):
                    self.allocated.append(buffer)
                case Let(var):
                    bound = (*bound, var)
                    out.append(stmt)
                case If(_, then, other):
                    out.append(replace(stmt, then=self.host(then, bound), other=self.host(other, bound)))
                case Loop(var, body=inside):
                    out.append(replace(stmt, body=self.host(inside, (*bound, var))))
                case While(_, inside):
                    out.append(replace(stmt, body=self.host(inside, bound)))
                case _:
                    out.append(stmt)
        return tuple(out)

    def function(self, grid: Grid, bound: tuple[Var, ...]) -> CudaKernel:
        out = self.out
        used, aligned = uses(grid.body), alignments(grid)
        roots, written = {b.root for b in used.buffers}, {b.root for b in used.written}
        texts: list[str] = []
        params: list[Parameter] = []
        lines: list[str] = []
        with self.scope():
            self.taken |= {c_name(b.name) for b in (*(t.buffer for t in grid.tiles), *used.buffers, *roots)}
            for buffer in [*(p.buffer for p in self.kernel.params if isinstance(p, TensorParam)), *self.kernel.workspaces, *self.allocated]:
                if buffer in roots:
                    texts.append(f"twb_global<{'' if buffer in written else 'const '}{cuda_type(buffer.type)}> {c_name(buffer.name)}")
                    params.append(Pointer(buffer.name, aligned.get(buffer, 1)))
            self.maps = tuple(f"{c_name(view.buffer.name)}_map{i}" for i, view in enumerate(grid.views))
            texts += [f"const __grid_constant__ twb_tensor_map {name}" for name in self.maps]
            params += [tensor_map(view) for view in grid.views]
            names = {v.name: v for v in used.used | uses([d for b in used.buffers for d in b.shape]).used}
            for var in [*self.kernel.dims, *(p.var for p in self.kernel.params if isinstance(p, ScalarParam)), *bound]:
                if var.name in names:
                    name = self.bind(var)
                    if suffix(var.type) in _TYPES:  # arithmetic on it is float32
                        lines.append(f"const float {name} = {self.call(f'twb_{suffix(var.type)}_to_f32', f'{name}_bits')};")
                        name = f"{name}_bits"
                    texts.append(f"{cuda_type(var.type)} {name}")
                    params.append(Number(var, str(var.type)))
            count = 1
            for n in grid.threads:
                count *= n
            # where threads hand registers to others, the compiler must know how many each has at first: all that one block of a multiprocessor has
            shifts = any(isinstance(n, DeviceCall) and "set_max_registers" in n.name for x in grid.body for n in walk(x))
            least = 1 if shifts else grid.together
            bounds = f"{count}, {least}" if least else str(count)
            together = f"__cluster_dims__{grid.cluster} " if grid.cluster != (1, 1, 1) else ""
            with out.block(f'extern "C" __global__ void {together}__launch_bounds__({bounds}) {c_name(grid.name)}({", ".join(texts)})'):
                for line in lines:
                    out.line(line)
                for var, axis in zip(grid.vars, "xyz", strict=False):
                    out.line(f"const {cuda_type(var.type)} {self.bind(var)} = twb_block_{axis}();")
                if grid.scratch_bytes:
                    out.line("TWB_SHARED_MEMORY(scratch);")
                self.viewed = {b.root for b in used.buffers if b.view_of is not None}
                for tile in grid.tiles:
                    self.tile(tile, tile.buffer.root in written)
                self.body(grid.body)
                out.end_source()
        out.line()
        extents = (*grid.extents, index(1), index(1))[:3]
        block = (*grid.threads, 1, 1)[:3]
        sizes = (extents[0], extents[1], extents[2]), (block[0], block[1], block[2])
        waits = any(isinstance(n, DeviceCall) and n.name == GRID_WAIT for s in grid.body for n in walk(s))
        return CudaKernel(c_name(grid.name), *sizes, tuple(params), grid.scratch_bytes, grid.cluster, is_programmatic=waits)

    def tile(self, tile: Tile, is_written: bool) -> None:
        """Where a tile lies, or what it is a view of."""
        buffer, kind = tile.buffer, cuda_type(tile.buffer.type)
        if buffer.view_of is not None:
            self.view(buffer, kind if is_written or buffer.is_on_chip else f"const {kind}")
            return
        size = buffer.static_bytes() * 8 // buffer.type.bits
        self.out.line(f"const twb_shared<{kind}> {c_name(buffer.name)} = twb_tile<{kind}>(scratch, {tile.offset}, {size});")

    def view(self, buffer: Buffer, kind: str) -> None:
        """Another pointer to what `buffer` is a view of."""
        assert buffer.view_of is not None
        start = "" if buffer.offset is None else f" + {self.expr(buffer.offset, 11)}"
        self.out.line(f"const auto {c_name(buffer.name)} = twb_cast<{kind}>({c_name(buffer.view_of.name)}){start};")
        self.called["twb_cast"] = None

    # ------------------------------------------------------------------------------------------ statements
    def stmt(self, s: Stmt) -> None:
        out = self.out
        match s:
            case SetElement(buffer, offset, value):
                out.line(f"{self.element(buffer, offset)} = {self.plain(value)};")
            case LoadVector(array, at, buffer, offset, count):
                out.line(f"{self.wide('twb_read', count, buffer, offset, array, at)};")
            case StoreVector(buffer, offset, array, at, count):
                out.line(f"{self.wide('twb_write', count, buffer, offset, array, at)};")
            case Let(var, value):
                text = self.plain(value)
                out.line(f"const {cuda_type(var.type)} {self.bind(var)} = {text};")
            case Declare(buffer, init):
                self.declare(buffer, init)
            case Loop():
                self.loop(s)
            case If(cond, then, other):
                self.branch(cond, then, other)
            case While(cond, inside):
                self.repeat(cond, inside)
            case Break():
                out.line("break;")
            case Continue():
                out.line("continue;")
            case Return():
                out.line("return;")
            case Evaluate(value):
                out.line(f"{self.expr(value)};")
            case PrintLine(parts):
                out.line(f"twb_print({self.print_arguments(parts)});")
            case Fail(number):
                out.line(f"{self.call('twb_fail', str(number + 1))};")
            case Sync(scope):
                out.again()  # the emulator tells barriers apart by their lines
                out.line(f"{self.call('twb_sync' if scope == 'block' else 'twb_sync_warp')};")
            case Collective():
                self.collective(s)
            case DeviceCall(name, args, constants):
                out.line(f"{self.device_call(name, args, constants)};")
            case _:
                raise UnsupportedError(f"{type(s).__name__} on a GPU, so far", span=s.span, hint='target="c" runs it')

    def collective(self, s: Collective) -> None:
        args = [self.value(s.args[0], 0), *(self.plain(a) for a in s.args[1:])]
        if s.op in ("shfl", "shfl_xor", "shfl_up", "shfl_down"):
            text = self.call(f"twb_{s.op}", *args) if s.width == 32 else self.call(f"twb_{s.op}", *args, str(s.width))
        elif s.op in _VOTES:
            text = self.call(_VOTES[s.op], *args)
        else:
            raise InternalError(f"{s.op} is left for the emitter")
        self.out.line(f"const {cuda_type(s.result.type)} {self.bind(s.result)} = {text};")

    def wide(self, name: str, count: int, buffer: Buffer, offset: Expr, array: Buffer, at: Expr) -> str:
        return self.call(name, self.address(buffer, offset), self.address(array, at)).replace("(", f"<{count}>(", 1)

    def declare(self, buffer: Buffer, init: Expr | None) -> None:
        kind, name = cuda_type(buffer.type), c_name(buffer.name)
        if buffer.scope == "var":
            self.out.line(f"{kind} {name} = {'{}' if init is None else self.plain(init)};")
            return
        if buffer.view_of is not None:
            self.view(buffer, kind)
            return
        aligned = "alignas(16) " if buffer.type.bits < 32 or buffer in self.viewed else ""  # pairs of them are read as words
        self.out.line(f"{aligned}{kind} {name}[{int(buffer.static_bytes() * 8 // buffer.type.bits)}];")

    def loop(self, s: Loop) -> None:
        start, stop = self.plain(s.start), self.narrow(s.stop, 9)
        with self.scope():
            name, kind = self.bind(s.var), c_type(s.var.type)
            sign, step = ("<", f"{name} += {s.step}") if s.step > 0 else (">", f"{name} -= {-s.step}")
            if s.by is not None:
                step = f"{name} += {self.plain(s.by)}"
            if s.unroll:
                self.out.line("#pragma unroll")
            with self.out.block(f"for ({kind} {name} = {start}; {name} {sign} {stop}; {step})"):
                self.body(s.body)

    # ------------------------------------------------------------------------------------------ expressions
    def element(self, buffer: Buffer, offset: Expr) -> str:
        if buffer.scope == "var":
            return c_name(buffer.name)
        return f"{c_name(buffer.name)}[{self.plain(offset)}]"

    def reinterpret(self, x: Expr, to: DType) -> str:
        if suffix(x.dtype) in _TYPES or suffix(to) in _TYPES:
            return self.call("twb_same_bits", self.expr(x)).replace("(", f"<{cuda_type(to)}, {cuda_type(x.dtype)}>(", 1)
        return super().reinterpret(x, to)

    def choice(self, e: Select, side: Expr, tight: int) -> str:
        """An element of memory is an object in the emulator, which beside another one, or a literal of another type, needs its own type named."""
        both = isinstance(e.then, Element) and isinstance(e.other, Element)
        return self.value(side, tight) if both or e.dtype.is_int and e.dtype.bits == 64 else super().choice(e, side, tight)

    def value(self, e: Expr, tight: int) -> str:
        """`e`; an element of memory with its type named, for where C++ would take the type of what is written."""
        if isinstance(e, Element) and e.buffer.root.scope not in ("local", "var"):
            return f"({cuda_type(e.dtype)}){self.expr(e, 12)}"
        return self.expr(e, tight)

    def address(self, buffer: Buffer, offset: Expr) -> str:
        if buffer.scope == "var":
            return f"&{c_name(buffer.name)}"
        if isinstance(offset, Const) and offset.value == 0:
            return c_name(buffer.name)
        return f"{c_name(buffer.name)} + {self.narrow(offset, 10)}"

    def device_call(self, name: str, args: tuple[Expr, ...], constants: tuple[int, ...]) -> str:
        text = self.call(name, *(self.plain(a) for a in args))
        return text.replace("(", f"<{', '.join(map(str, constants))}>(", 1) if constants else text

    def registers(self, e: Registers) -> str:
        if e.word == e.buffer.type and isinstance(e.offset, Const) and e.offset.value == 0 and e.count == int(e.buffer.static_shape()[0]):
            return c_name(e.buffer.name)
        return self.call("twb_registers", self.address(e.buffer, e.offset)).replace("(", f"<{cuda_type(e.word)}, {e.count}>(", 1)

    def expr(self, e: Expr, tight: int = 0) -> str:
        match e:
            case DeviceValue(name, args, _, constants):
                return self.device_call(name, args, constants)
            case Registers():
                return self.registers(e)
            case CallExtern(name, args):
                plain = [self.call("twb_pointer", self.plain(a)) if isinstance(a, Address) else self.value(a, 0) for a in args]
                return f"{name}({', '.join(plain)})"
            case MapOf(number):
                return f"&{self.maps[number]}"
            case _:
                pass
        if isinstance(e, Const) and suffix(e.type) in _TYPES:
            bits = int.from_bytes(np.asarray(e.value).astype(e.type.to_numpy()).tobytes(), "little")
            return f"{cuda_type(e.type)}{{{bits}}}"
        return super().expr(e, tight)

    def call(self, name: str, *args: str) -> str:
        if name.startswith("twb_"):
            why = "" if name in self.called else self.why_missing(name)
            if why:
                raise UnsupportedError(why, hint='compile for an architecture that has it, as in target="cuda:sm_90a"')
            self.called[name] = None
        return f"{name}({', '.join(args)})"
