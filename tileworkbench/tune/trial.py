"""One trial: a kernel, the arguments, what it should compute, and how to time it, as a value that travels to another process or machine.

    trial = Trial.of(kernel, inputs=Inputs.of((A, B), reference=lambda a, b: a @ b))
    outcome = run_trial(trial)         # in a process of its own; `tune.sandbox`
    outcome.status, outcome.times_ms   # ("ran", (1.21, 1.19, ...))

A kernel travels as its tile program and is built again where it runs: on this machine from the disk cache, on another for that machine's processor.
"""

from __future__ import annotations

import functools
import itertools
import pickle
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..base.errors import ExpectationError, TileError
from ..runtime.arrays import library_of
from ..runtime.code import Code
from ..runtime.compiling import build
from ..runtime.cuda_arrays import is_on_gpu
from ..runtime.kernel import JITKernel
from ..runtime.profiler import assert_close, plain
from ..runtime.timing import measure
from .candidate import Status

FINAL_ROUNDS = 8
MOST_SETS = 24


@dataclass(frozen=True, slots=True)
class Expected:
    """What the reference gave: `returned`, and its arguments as it left them (None for arguments that are no arrays)."""

    returned: tuple[Any, ...]
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Inputs:
    """The arguments of every trial of a search, pickled once; `token` names them, so that a process gets them only once."""

    token: str
    data: bytes = field(repr=False)
    is_checked: bool

    @staticmethod
    def of(args: Sequence[Any], reference: Any = None) -> Inputs:
        """`reference` is a function that works as the kernel does (returns what it returns, changes what it changes), or the expected results.

        It is called once, on copies. Raises what the reference raises.
        """
        expected = None
        if callable(reference):
            copies = copied(args)
            returned = as_list(reference(*copies))
            expected = Expected(tuple(returned), tuple(x if has_shape(x) else None for x in copies))
        elif reference is not None:
            expected = Expected(tuple(as_list(reference)), (None,) * len(args))
        return Inputs(uuid.uuid4().hex, pickle.dumps((tuple(args), expected), protocol=5), expected is not None)

    def load(self) -> tuple[tuple[Any, ...], Expected | None]:
        """The arguments and the expected results, as new copies."""
        args, expected = pickle.loads(self.data)
        return args, expected


@dataclass(frozen=True, slots=True)
class Settings:
    """How to time and compare. Times in milliseconds; `stop_above_ms`: give up after three runs that are all slower than it.

    A share of `mismatched` of the elements may lie outside `atol + rtol * |expected|`. `rotate_bytes`: calls take copies of the arguments in turns,
    so many that they hold as many bytes together: what a cache holds is then not there when its turn comes again. 0: the same arrays each time.
    """

    warmup_ms: float = 25.0
    rep_ms: float = 100.0
    runs: int = 0
    rtol: float = 1e-2
    atol: float = 1e-2
    mismatched: float = 0.01
    stop_above_ms: float | None = None
    rotate_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Trial:
    """What to run. With several `codes` (the finalists of a search) they are timed in turn, again and again, and not checked.

    `timeout_s` counts from the first run on, not while it is built. `keep` asks for the returned arrays and the arguments as the kernel left them,
    and leaves the comparison to the caller.
    """

    codes: tuple[bytes, ...]
    inputs: Inputs
    settings: Settings = Settings()
    timeout_s: float = 30.0
    is_isolated: bool = True
    keep: bool = False
    owner: str = ""

    @staticmethod
    def of(kernel: JITKernel | Sequence[JITKernel], inputs: Inputs, **options: Any) -> Trial:
        """The trial of one kernel or of several; `options` are the other fields."""
        kernels = (kernel,) if isinstance(kernel, JITKernel) else kernel
        return Trial(tuple(pickle.dumps(Code.of(k), protocol=5) for k in kernels), inputs, **options)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a trial: `times_ms` of the kernel, `all_times_ms` of each of several; `returned` and `arguments` if they were kept."""

    status: Status
    reason: str = ""
    times_ms: tuple[float, ...] = ()
    all_times_ms: tuple[tuple[float, ...], ...] = ()
    returned: tuple[Any, ...] = ()
    arguments: tuple[Any, ...] = ()


# ------------------------------------------------------------------------------------------- where it runs
def build_all(trial: Trial) -> list[JITKernel] | Outcome:
    """The kernels, or why they cannot be built here."""
    try:
        return [build(pickle.loads(code)) for code in trial.codes]
    except Exception as error:
        return Outcome("does not compile", reason_of(error))


def execute(trial: Trial, kernels: Sequence[JITKernel], args: Sequence[Any], expected: Expected | None) -> Outcome:
    """Check and time `kernels` on copies of `args`, in this process."""
    try:
        if len(kernels) > 1:
            return _in_turn(trial, kernels, args)
        return _one(trial, kernels[0], args, expected)
    except ExpectationError as error:
        return Outcome("wrong result", error.message)
    except Exception as error:
        return Outcome("raised", reason_of(error))


def _one(trial: Trial, kernel: JITKernel, args: Sequence[Any], expected: Expected | None) -> Outcome:
    args, settings = at_hand(kernel, args), trial.settings
    copies = copied(args)
    returned = as_list(kernel(*copies))
    if expected is not None and not trial.keep:
        check(kernel, returned, copies, args, expected, settings)
    kept = (tuple(copied(returned)), tuple(copied(copies))) if trial.keep else ((), ())
    del returned
    found = measure(
        calls_of(kernel, args, settings.rotate_bytes), warmup_ms=settings.warmup_ms, rep_ms=settings.rep_ms, runs=settings.runs,
        baseline_ms=settings.stop_above_ms, stop_factor=1.0, clock=kernel.clock_for(copies),
    )  # fmt: skip
    if found.was_stopped:
        return Outcome("slower", f"stopped after {len(found.runs_ms)} runs, the best {found.best_ms:.4g} ms", found.runs_ms, (), *kept)
    return Outcome("ran", "", found.runs_ms, (), *kept)


def _in_turn(trial: Trial, kernels: Sequence[JITKernel], args: Sequence[Any]) -> Outcome:
    """Time several kernels alternately, so that a clock that changes meanwhile is fair to all."""
    args, settings = at_hand(kernels[0], args), trial.settings
    calls = [calls_of(kernel, args, settings.rotate_bytes) for kernel in kernels]
    clock = kernels[0].clock_for(args)
    times: list[list[float]] = [[] for _ in kernels]
    warmup_ms, rep_ms = settings.warmup_ms / FINAL_ROUNDS, settings.rep_ms / FINAL_ROUNDS
    for _ in range(FINAL_ROUNDS):
        for i, call in enumerate(calls):
            times[i] += measure(call, warmup_ms=warmup_ms, rep_ms=rep_ms, runs=settings.runs, clock=clock).runs_ms
    return Outcome("ran", all_times_ms=tuple(map(tuple, times)))


def at_hand(kernel: JITKernel, args: Sequence[Any]) -> Sequence[Any]:
    """The arguments where the kernel works: for a GPU, copies of what lies in the host's memory."""
    send: Callable[[Any], Any] | None = getattr(kernel.executable, "send", None)
    return args if send is None else [send(x) if has_shape(x) and not is_on_gpu(x) else x for x in args]


def calls_of(kernel: JITKernel, args: Sequence[Any], rotate_bytes: int) -> Callable[[], Any]:
    """A function that calls the kernel on copies of `args`, on the next ones each time where there are several."""
    size = sum(int(x.nbytes) for x in args if has_shape(x))
    sets = [copied(args) for _ in range(min(MOST_SETS, -(-rotate_bytes // max(size, 1))) or 1)]
    if len(sets) == 1:
        return functools.partial(kernel, *sets[0])
    turns = itertools.cycle(sets)
    return lambda: kernel(*next(turns))


def check(kernel: JITKernel, returned: Sequence[Any], after: Sequence[Any], before: Sequence[Any], expected: Expected, settings: Settings) -> None:
    """Compare what a kernel returned, and what it wrote to its arguments, with what the reference did. Raises ExpectationError.

    A reference that returns values for a kernel that returns none (it writes to its arguments) is compared with those arguments, in order.
    """
    inputs = kernel.signature.inputs
    written = [i for i, p in enumerate(inputs) if i < len(after) and getattr(p, "is_written", False)]
    pairs: list[tuple[str, Any, Any]] = []
    got, wanted = list(returned), list(expected.returned)
    if wanted and not got:
        got = [after[i] for i in written][: len(wanted)]
    if wanted or got:
        if len(got) != len(wanted):
            raise ExpectationError(f"it gives {len(got)} results, the reference {len(wanted)}")
        pairs += [(f"output {i}", g, w) for i, (g, w) in enumerate(zip(got, wanted, strict=True))]
    for i in written:
        reference = expected.arguments[i]
        if reference is not None and (not wanted or not same(reference, before[i])):
            pairs.append((f"argument {inputs[i].name}", after[i], reference))
    for name, g, w in pairs:
        assert_close(g, w, rtol=settings.rtol, atol=settings.atol, max_mismatched_ratio=settings.mismatched, name=name)


# ------------------------------------------------------------------------------------------- small things
def reason_of(error: BaseException) -> str:
    """What went wrong, without a traceback: the whole text of an error of ours, else the kind and its message."""
    return str(error) if isinstance(error, TileError) else f"{type(error).__name__}: {error}"


def has_shape(value: Any) -> bool:
    """Whether a value has a shape and a dtype: arrays and tensors wherever they are, and NumPy's numbers."""
    return hasattr(value, "shape") and hasattr(value, "dtype")


def copied(values: Sequence[Any]) -> list[Any]:
    """Copies of the arrays among `values`; the rest as it is."""
    return [x.clone() if library_of(x) == "torch" else x.copy() if has_shape(x) and hasattr(x, "copy") else x for x in values]


def same(a: Any, b: Any) -> bool:
    """Whether two arrays hold the same bits; True for values that are none."""
    if not (has_shape(a) and has_shape(b)):
        return True
    if library_of(a) == library_of(b) == "torch" and a.device == b.device:
        return bool((a == b).all()) if a.shape == b.shape else False
    return plain(a).tobytes() == plain(b).tobytes()


def as_list(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]


Runner = Callable[[Trial], Outcome]
