"""`%%tile`: compile what the cell defines, run what it calls, show one panel.

The magic is arguments in, one call, one display; what it shows is a `CellRun`, a value that `-o` returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from IPython.core.magic import Magics, cell_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from traitlets import Float, Instance, Integer, Unicode

from ..runtime.targets import target_names
from ..views.crumbs import Crumb, Trail
from . import completer, live
from .panel import PARTS, chosen, show
from .run import CellRun, Options, run_cell
from .workbench import Workbench, show_bench

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

ARCHITECTURES = ("sm_80", "sm_90a")  # that are offered as targets; any other that is named is taken too
CRUMBS = 8  # earlier runs of a kernel that its roofline shows


def unquoted(text: str) -> str:
    """An argument without the quotes that held it together; the shell's splitting keeps them."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


@magics_class
class TileMagics(Magics):
    """Defaults of `%%tile` for this session: `%config TileMagics.target = "interpret"`."""

    target = Unicode("", help="Where kernels run, for example c or interpret. Empty: the best that this machine can do.").tag(config=True)
    machine = Unicode("", help="The machine that reports are about, by a preset's name. Empty: this one, measured.").tag(config=True)
    threads = Integer(0, min=0, help="CPU threads of a launch. 0: all that this process may use.").tag(config=True)
    show = Unicode("summary,roofline,traffic", help=f"Parts of the panel, separated by commas: {', '.join(PARTS)}, all or none.").tag(config=True)
    repeat = Integer(5, min=1, help="Launches to time when a kernel can be run again without changing its result.").tag(config=True)
    _crumbs = Instance(dict, ())
    tolerance = Float(0.0, min=0.0, help="Relative tolerance of --check. 0: derived from dtypes and lengths.").tag(config=True)

    @no_var_expand
    @cell_magic
    @magic_arguments()
    @argument(
        "-t",
        "--target",
        type=unquoted,
        metavar="NAME",
        help="where to run: c, interpret, cuda, emulate; a GPU that is not here: sm_90a",
    )
    @argument("--threads", type=int, metavar="N", help="CPU threads of a launch")
    @argument("-s", "--show", type=unquoted, metavar="PARTS", help=f"parts of the panel, separated by commas: {', '.join(PARTS)}, all or none")
    @argument(
        "-c", "--check", type=unquoted, metavar="EXPR", help="compare the output of the last launch: an array, or a function of the kernel's inputs"
    )
    @argument("--tolerance", type=float, metavar="REL", help="relative tolerance of --check (default: derived from dtypes and lengths)")
    @argument(
        "-e",
        "--expect",
        type=unquoted,
        metavar="CONDITIONS",
        help="fail the cell unless all hold, e.g. 'dram.bytes <= 1.05*compulsory; roof >= 60%%'",
    )
    @argument("-m", "--machine", type=unquoted, metavar="NAME", help="report on this machine instead, by the model: see tileworkbench.machines()")
    @argument("--compile-only", action="store_true", help="compile, check arguments and predict, but launch nothing")
    @argument("-r", "--repeat", type=int, metavar="N", help="launches to time, where running again changes no result")
    @argument(
        "--tune",
        nargs="?",
        const="",
        type=unquoted,
        metavar="TUNABLES",
        help="show the workbench of the last kernel, e.g. 'block_M=32,64,128; block_N=32..256'; alone: what its defaults show",
    )
    @argument("-o", "--output", action="store_true", help="return the CellRun: its launches, report and checks as values")
    def tile(self, line: str, cell: str) -> CellRun | None:
        """Compile the kernels that this cell defines, run what it calls, and show one panel.

        The body is ordinary Python. Afterwards its names are in the notebook's namespace, kernels as functions of arrays. If the cell
        fails, it raises, and the namespace is as it was before.

        Examples::

            %%tile
            @tilelang.jit
            def scale(A, factor: T.float32):
                N = T.const("N")
                A: T.Tensor((N,), "float32")
                B = T.empty((N,), "float32")
                with T.Kernel(T.ceildiv(N, 256)) as bx:
                    for i in T.Parallel(256):
                        B[bx * 256 + i] = A[bx * 256 + i] * factor
                return B

            B = scale(A, 2.0)

            %%tile --check "2 * A"                      compare the last launch's output with an array
            %%tile --check numpy_softmax                or with a function of the kernel's inputs
            %%tile --expect "dram.bytes <= 1.05*compulsory; time < 2 ms"
            %%tile --target interpret --show source     run on NumPy, show the emitted source
            %%tile --machine reference                  what the model says of another machine
            %%tile --tune "BM=32,64,128; BN=32..256"    sliders for block sizes, prediction and measurement side by side
            %%tile --tune                               the same, for what the function's defaults show
            %%tile --compile-only                       look at the prediction without a run
            %%tile --target sm_90a --compile-only       what an H200 would run: text, registers, occupancy, prediction; needs no GPU
            %%tile --target emulate:sm_90a              run the text for an H200 on this machine, thread by thread

        Names in --expect: time, rate, flops, roof, compulsory (bytes needed once), global.bytes (asked of the arguments), asked.bytes (asked
        of all buffers), and of each level (l1, l2, l3, dram) its bytes, intensity, bandwidth and roof, such as dram.bytes.
        Units: B, kB, MiB, GB/s, us, ms, s, GFLOP/s, %.

        Defaults for the session: %config TileMagics
        """
        args = parse_argstring(self.tile, line)
        parts = chosen(args.show or ("summary" if args.tune is not None else self.show))
        options = Options(
            target=args.target or self.target,
            threads=self.threads if args.threads is None else args.threads,
            check=args.check or "",
            tolerance=(self.tolerance or None) if args.tolerance is None else args.tolerance,
            expect=args.expect or "",
            compile_only=args.compile_only,
            repeat=args.repeat or self.repeat,
            machine=args.machine or self.machine,
            tune=args.tune,
            parts=parts,
        )
        assert self.shell is not None
        run = run_cell(self.shell, line, cell, options)
        show(run, parts, self._earlier(run, cell), cell)
        if run.bench is not None:
            show_bench(run.bench)
        run.raise_failures()
        return run if args.output else None

    def _earlier(self, run: CellRun, cell: str) -> tuple[Crumb, ...]:
        """Runs of the same kernel from earlier cells, the newest last; this one is remembered for the next, with its source."""
        if run.report is None:
            return ()
        trail: Trail = self._crumbs.setdefault(run.report.kernel, Trail(CRUMBS))
        return trail.add(run.report, cell)


def load(shell: InteractiveShell) -> None:
    """Register `%%tile`, its completion, and live views as the last value of a cell; loading twice is loading once."""
    unload(shell)
    live.answer(shell)
    if shell.display_formatter is not None:
        shell.display_formatter.ipython_display_formatter.for_type(Workbench, show_bench)
    magics = TileMagics(shell=shell)
    shell.register_magics(magics)
    parts = [*PARTS, "all", "none"]
    targets = [*target_names(), *ARCHITECTURES, *(f"emulate:{arch}" for arch in ARCHITECTURES)]
    values = {"--target": lambda: targets, "-t": lambda: targets, "--show": lambda: parts, "-s": lambda: parts}
    completer.install(shell, TileMagics.tile.parser, values)  # type: ignore[union-attr]  # set by @magic_arguments


def unload(shell: InteractiveShell) -> None:
    """Take `%%tile` away again."""
    live.be_still(shell)
    if shell.display_formatter is not None:
        shell.display_formatter.ipython_display_formatter.pop(Workbench, None)
    shell.configurables[:] = [c for c in shell.configurables if not isinstance(c, TileMagics)]
    shell.magics_manager.magics["cell"].pop("tile", None)
    completer.remove(shell)
