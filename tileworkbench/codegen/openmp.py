"""A lowered kernel as OpenMP C: one function per launch that runs one block, and an entry that runs the grids."""

from __future__ import annotations

from ..analysis.uses import uses
from ..base.cpu import Isa, host_isa
from ..base.dtypes import FLOAT64, DType
from ..base.errors import InternalError, UnsupportedError
from ..ir.expr import Buffer, Const, Expr, Var
from ..ir.lowered import AllocateGlobal, CopyElements, Declare, EndIteration, Fail, GemmCall, Grid, Loop, PrintLine, SetElement
from ..ir.node import walk
from ..ir.stmt import Break, Continue, Evaluate, If, Kernel, Let, Return, ScalarParam, Stmt, TensorParam, While
from .c_names import c_name
from .c_statements import CStatements, asserts_of
from .clib import FLAGS, LINK_FLAGS, c_type, library
from .launch import PIN, SCRATCH, region
from .microgemm import GemmSpec, gemm_name, gemm_needs, gemm_parts, gemm_scratch_bytes, gemm_text
from .parts import files_of
from .source import CSource

_FLAGS = (*FLAGS, "-fwrapv", "-fno-strict-aliasing")
_RELEASE = """\
extern void *malloc(__SIZE_TYPE__); extern void free(void *);
static void twb_release(void *p) { free(*(void **)p); }
"""


def emit(kernel: Kernel, isa: Isa | None = None) -> CSource:
    """C text for a lowered kernel; `isa` (default: this machine's) shapes the micro-kernels."""
    return _Emitter(kernel, isa or host_isa()).source()


class _Emitter(CStatements):
    def __init__(self, kernel: Kernel, isa: Isa) -> None:
        super().__init__()
        self.kernel = kernel
        self.isa = isa
        self.gemms: dict[GemmSpec, None] = {}
        self.scratch_bytes = 0
        self.prints = False
        self.has_regions = False
        self.in_block = False
        self.gemm_offset = 0
        self.calls: dict[str, tuple[list[tuple[str, Buffer | Var]], bool]] = {}  # of each block function: its arguments, and whether it can fail

    def source(self) -> CSource:
        """The whole file."""
        for grid in (n for n in walk(self.kernel) if isinstance(n, Grid)):
            self.block(grid)
        self.entry()
        parts = self.preamble()
        shift = parts.count("\n")
        lines = {number + shift: span for number, span in self.out.spans.items()}
        asserts = asserts_of(self.kernel)
        apart = files_of(self.needs(), gemm_parts(*self.gemms), self.isa)
        return CSource(parts + self.out.text(), self.entry_name, _FLAGS, LINK_FLAGS, self.scratch_bytes, asserts, lines, apart)

    @property
    def entry_name(self) -> str:
        return f"run_{c_name(self.kernel.name)}"

    def preamble(self) -> str:
        """The signature, the library functions in use, the micro-kernels and the author's own C."""
        parts = [f"/* {self.signature()} */\n", library(self.needs(), self.isa)]
        if self.prints:
            parts.append("extern int printf(const char *, ...); extern int fflush(void *);\n")
        if self.scratch_bytes:
            parts.append(SCRATCH)
        if self.has_regions:
            parts.append(PIN)
        if any(isinstance(s, AllocateGlobal) for s in self.kernel.body):
            parts.append(_RELEASE)
        parts.append(gemm_text(*self.gemms))
        parts += [text.rstrip("\n") + "\n" for text in self.kernel.imports]
        return "".join(parts) + "\n"

    def needs(self) -> list[str]:
        """The library functions that the text calls."""
        return [*self.called, *(name for spec in self.gemms for name in gemm_needs(spec))]

    def signature(self) -> str:
        def shape(buffer: Buffer) -> str:
            return ", ".join(self.expr(d) for d in buffer.shape)

        params = [
            f"{p.buffer.name}: {p.buffer.type}[{shape(p.buffer)}]" if isinstance(p, TensorParam) else f"{p.var.name}: {p.var.type}"
            for p in self.kernel.params
        ]
        return f"{self.kernel.name}({', '.join(params)})"

    # ------------------------------------------------------------------------------------------ functions
    def arguments(self, grid: Grid) -> list[tuple[str, Buffer | Var]]:
        """What a block needs from outside, each with its C type, in a fixed order."""
        used = uses(grid.body)
        shapes = uses([d for b in used.buffers for d in b.shape])
        roots = {b.root for b in used.buffers}
        written = {b.root for b in used.written}
        out: list[tuple[str, Buffer | Var]] = [
            (f"{'' if b in written else 'const '}{storage(b.type)} *", b) for b in self.global_buffers() if b in roots
        ]
        own = {v.name for v in grid.vars} | {v.name for v in used.bound}
        names = sorted({v.name: v for v in used.used | shapes.used if v.name not in own}.values(), key=lambda v: v.name)
        out += [(f"{c_type(v.type)} ", v) for v in names]
        return out

    def argument_name(self, what: Buffer | Var) -> str:
        return self.name(what) if isinstance(what, Var) else c_name(what.name)

    def global_buffers(self) -> list[Buffer]:
        return [*self.passed_buffers(), *(s.buffer for s in self.kernel.body if isinstance(s, AllocateGlobal))]

    def passed_buffers(self) -> list[Buffer]:
        """Those whose pointers the caller passes, in order."""
        tensors = [p.buffer for p in self.kernel.params if isinstance(p, TensorParam)]
        return [*tensors, *self.kernel.workspaces]

    def block(self, grid: Grid) -> None:
        """The function that runs one block."""
        with self.scope():
            self.block_function(grid)

    def block_function(self, grid: Grid) -> None:
        out = self.out
        self.taken |= {c_name(b.name) for b in self.global_buffers()} | {c_name(t.buffer.name) for t in grid.tiles}
        self.taken |= {c_name(n.buffer.name) for n in walk(grid) if isinstance(n, Declare)}
        given = self.arguments(grid)
        params = [f"{kind}{self.bind(what) if isinstance(what, Var) else c_name(what.name)}" for kind, what in given]
        params += [f"int64_t {self.bind(v)}" for v in grid.vars]
        needs_scratch = grid.scratch_bytes > 0 or any(isinstance(n, GemmCall) for n in walk(grid))
        fails = needs_scratch or any(isinstance(n, Fail) for n in walk(grid))
        if fails:
            params.append("int32_t *failed")
        head = f"static void {c_name(grid.name)}({', '.join(params)})"
        with out.block(head):
            gemm_bytes = max((gemm_scratch_bytes(self.spec(n)) for n in walk(grid) if isinstance(n, GemmCall)), default=0)
            total = grid.scratch_bytes + gemm_bytes
            self.gemm_offset = grid.scratch_bytes
            if total:
                self.scratch_bytes = max(self.scratch_bytes, total)
                out.line(f"char *const scratch = twb_scratch({total});")
                out.line("if (!scratch) {")
                out.line("  *failed = -1;")
                out.line("  return;")
                out.line("}")
            for tile in grid.tiles:
                self.tile(tile.buffer, tile.offset)
            self.in_block = True
            self.body(grid.body)
            self.in_block = False
            out.end_source()
        out.line()
        self.calls[grid.name] = (given, fails)

    def tile(self, buffer: Buffer, offset: int) -> None:
        name, kind = c_name(buffer.name), storage(buffer.type)
        if buffer.view_of is not None:
            start = "" if buffer.offset is None else f" + ({self.plain(buffer.offset)})" + (" / 2" if buffer.type.bits < 8 else "")
            self.out.line(f"{kind} *const {name} = ({kind} *){c_name(buffer.view_of.name)}{start};")
            return
        shape = ", ".join(self.expr(d) for d in buffer.shape)
        self.out.line(f"{kind} *const {name} = ({kind} *)(scratch + {offset}); /* {buffer.scope} ({shape}) {buffer.type} */")

    def entry(self) -> None:
        """The function that the runtime calls."""
        out = self.out
        self.taken |= {c_name(b.name) for b in self.global_buffers()} | {c_name(v.name) for v in uses(self.kernel.body).free}
        with out.block(f"TWB_RARE int32_t {self.entry_name}(const int64_t *args, int32_t threads)"):
            self.load_arguments()
            if any(fails for _, fails in self.calls.values()):
                out.line("int32_t failed = 0;")
            self.body(self.kernel.body)
            out.end_source()
            if self.prints:
                out.line("fflush(0);")
            out.line("(void)args, (void)threads;")
            out.line("return 0;")

    def load_arguments(self) -> None:
        out, slot = self.out, 0
        used = uses(self.kernel.body)
        roots = {b.root for b in used.buffers}
        names = {v.name for v in used.used | uses([d for b in used.buffers for d in b.shape]).used}
        for buffer in self.passed_buffers():
            if buffer in roots:
                out.line(f"{storage(buffer.type)} *const {c_name(buffer.name)} = ({storage(buffer.type)} *)args[{slot}];")
            slot += 1
        for dim in self.kernel.dims:
            if dim.name in names:
                out.line(f"const int64_t {c_name(dim.name)} = args[{slot}];")
            slot += 1
        for param in self.kernel.params:
            if isinstance(param, ScalarParam):
                if param.var.name in names:
                    out.line(self.scalar_argument(param.var, slot))
                slot += 1

    def scalar_argument(self, var: Var, slot: int) -> str:
        name = c_name(var.name)
        if not var.type.is_float:
            return f"const {c_type(var.type)} {name} = ({c_type(var.type)})args[{slot}];"
        value = self.call("twb_f64_bits", f"(uint64_t)args[{slot}]")
        if var.type.bits < 32:  # arithmetic on it is float32
            rounded = self.call(f"twb_f64_to_{_short(var.type)}", value)
            return f"const float {name} = {self.call(f'twb_{_short(var.type)}_to_f32', rounded)};"
        return f"const {c_type(var.type)} {name} = {'' if var.type == FLOAT64 else '(float)'}{value};"

    # ------------------------------------------------------------------------------------------ statements
    def stmt(self, s: Stmt) -> None:
        out = self.out
        match s:
            case SetElement(buffer, offset, value):
                self.store(buffer, offset, value)
            case Let(var, value):
                text = self.plain(value)
                out.line(f"const {c_type(var.type)} {self.bind(var)} = {text};")
            case Declare(buffer, init):
                self.declare(buffer, init)
            case Loop():
                self.loop(s)
            case CopyElements(dst, dst_offset, src, src_offset, count):
                size = f"sizeof({storage(dst.type)})"
                amount = size if isinstance(count, Const) and count.value == 1 else f"{self.expr(count, 11)} * {size}"
                out.line(f"__builtin_memcpy({self.address(dst, dst_offset)}, {self.address(src, src_offset)}, {amount});")
            case GemmCall():
                self.gemm(s)
            case If(cond, then, other):
                self.branch(cond, then, other)
            case While(cond, inside):
                self.repeat(cond, inside)
            case Break():
                out.line("break;")
            case Continue():
                out.line("continue;")
            case Return():
                out.line("return;" if self.in_block else "return 0;")
            case EndIteration(label):
                out.line(f"goto {label};")
            case Evaluate(value):
                out.line(f"{self.expr(value)};")
            case Fail(number):
                out.line(f"*failed = {number + 1};" if self.in_block else f"return {number + 1};")
                if self.in_block:
                    out.line("return;")
            case PrintLine(parts):
                self.prints = True
                out.line(f"printf({self.print_arguments(parts)});")
            case AllocateGlobal(buffer):
                self.allocate(buffer)
            case Grid():
                self.grid(s)
            case _:
                raise InternalError(f"no C for {type(s).__name__}")

    def store(self, buffer: Buffer, offset: Expr, value: Expr) -> None:
        if buffer.type.bits < 8 and buffer.scope != "var":
            shared = "" if buffer.root.is_on_chip else "_shared"
            self.out.line(self.call(f"twb_store_i4{shared}", c_name(buffer.name), self.plain(offset), self.plain(value)) + ";")
            return
        self.out.line(f"{self.element(buffer, offset)} = {self.plain(value)};")

    def declare(self, buffer: Buffer, init: Expr | None) -> None:
        kind, name = c_type(buffer.type), c_name(buffer.name)
        if buffer.scope == "var":
            self.out.line(f"{kind} {name} = {'0' if init is None else self.plain(init)};")
            return
        if buffer.view_of is not None:
            self.tile(buffer, 0)
            return
        count = int(buffer.static_bytes() * 8 // buffer.type.bits)
        self.out.line(f"{storage(buffer.type)} {name}[{-(-count * buffer.type.bits // 8) if buffer.type.bits < 8 else count}];")

    def loop(self, s: Loop) -> None:
        start, stop = self.plain(s.start), self.narrow(s.stop, 9)
        with self.scope():
            self.loop_in(s, start, stop)

    def loop_in(self, s: Loop, start: str, stop: str) -> None:
        name, kind = self.bind(s.var), c_type(s.var.type)
        sign, step = ("<", f"++{name}" if s.step == 1 else f"{name} += {s.step}") if s.step > 0 else (">", f"{name} -= {-s.step}")
        if s.step == -1:
            step = f"--{name}"
        if s.simd:
            clauses = "".join(f" reduction({op}:{c_name(b.name)})" for op, b in s.reductions)
            self.out.line(f"#pragma omp simd{clauses}")
        with self.out.block(f"for ({kind} {name} = {start}; {name} {sign} {stop}; {step})"):
            self.body(s.body)
            if s.label:
                self.out.line(f"{s.label}:;")

    def spec(self, s: GemmCall) -> GemmSpec:
        a, b, c = s.a.buffer.type, s.b.buffer.type, s.c.buffer.type
        try:
            far_a, far_b = (not o.buffer.is_on_chip for o in (s.a, s.b))
            return GemmSpec(s.m, s.n, s.k, a, b, c, s.lda, s.ldb, s.ldc, s.trans_a, s.trans_b, self.isa, far_a, far_b)
        except ValueError as error:
            raise UnsupportedError(str(error), span=s.span) from None

    def gemm(self, s: GemmCall) -> None:
        spec = self.spec(s)
        self.gemms[spec] = None
        operands = ", ".join(self.address(o.buffer, o.offset) for o in (s.a, s.b, s.c))
        scratch = f"scratch + {self.gemm_offset}" if gemm_scratch_bytes(spec) else "0"
        self.out.line(f"{gemm_name(spec)}({operands}, {self.expr(s.clear)}, {scratch});")

    def allocate(self, buffer: Buffer) -> None:
        name, kind = c_name(buffer.name), storage(buffer.type)
        count = " * ".join([f"{self.expr(d, 12)}" for d in buffer.shape])
        self.out.line(f"{kind} *{name} __attribute__((cleanup(twb_release))) = malloc(sizeof({kind}) * {count});")
        self.out.line(f"if (!{name}) return -1;")

    def grid(self, s: Grid) -> None:
        """The loops over blocks, x innermost; a grid of one block is a call."""
        with self.scope():
            self.grid_loops(s)

    def grid_loops(self, s: Grid) -> None:
        given, fails = self.calls[s.name]
        extents = [self.plain(e) for e in s.extents]
        names = [self.bind(v) for v in s.vars]
        call = ", ".join([*(self.argument_name(what) for _, what in given), *names, *(["&failed"] if fails else [])])
        single = all(isinstance(e, Const) and e.value == 1 for e in s.extents)
        if single:
            with self.out.block(""):
                for name in names:
                    self.out.line(f"const int64_t {name} = 0;")
                self.out.line(f"{c_name(s.name)}({call});")
                self.body(s.after)
        else:
            self.has_regions |= region(self.out, s, names, extents, f"{c_name(s.name)}({call})", lambda: self.body(s.after))
        if fails:
            self.out.line("if (failed) return failed;")


def storage(dtype: DType) -> str:
    """The C type of a buffer's memory: 4-bit integers lie in bytes."""
    return "uint8_t" if dtype.bits < 8 else c_type(dtype)


def _short(dtype: DType) -> str:
    return {"float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}[dtype]
