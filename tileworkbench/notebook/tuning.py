"""`%%tile --tune`: the workbench of the kernel that a cell launched last.

--tune "block_M=32,64,128; block_N=32..256"     these tunables; 32..256 are the powers of two between them
--tune                                          those that the function's defaults show
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from ..base.errors import TileError, TileTypeError, TileValueError
from ..frontend.eager import signature_of
from ..runtime.arguments import BoundCall
from ..runtime.jit import JITFunction
from ..runtime.kernel import JITKernel
from ..tune.problem import jitted
from ..tune.space import powers
from .positions import place_of
from .workbench import Workbench, workbench


class TuneSyntaxError(TileValueError):
    """The text of --tune cannot be read; `start` and `stop` are the characters that are at fault."""

    def __init__(self, message: str, start: int, stop: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.start, self.stop = start, stop


def parse(text: str) -> dict[str, tuple[Any, ...]]:
    """The tunables that a text names, each with its values.

    >>> parse("BM=32,64; stages=1,2,3; swizzle=True,False; BK=16..64")
    {'BM': (32, 64), 'stages': (1, 2, 3), 'swizzle': (True, False), 'BK': (16, 32, 64)}

    Raises: TuneSyntaxError with the place of what it does not understand.
    """
    found: dict[str, tuple[Any, ...]] = {}
    at = 0
    for part in text.split(";"):
        start, stop = at + len(part) - len(part.lstrip()), at + len(part.rstrip())
        at += len(part) + 1
        if not part.strip():
            continue
        name, equals, values = (p.strip() for p in part.partition("="))
        if not equals or not name.isidentifier() or not values:
            raise TuneSyntaxError(f"cannot read {part.strip()!r}", start, max(stop, start + 1), 'write a name and its values: "block_M=32,64,128"')
        try:
            found[name] = tuple(step for word in values.split(",") for step in _steps(word.strip()))
        except ValueError as error:
            raise TuneSyntaxError(str(error), start, stop) from None
    return found


def _steps(word: str) -> Sequence[Any]:
    """The values that one word stands for. Raises ValueError."""
    low, dots, high = word.partition("..")
    if dots:
        if not (low.strip().isdigit() and high.strip().isdigit()) or not (steps := powers(int(low), int(high))):
            raise ValueError(f"{word!r} is no range of powers of two, such as 32..256")
        return steps
    try:
        return (ast.literal_eval(word),)
    except (ValueError, SyntaxError):
        if word.isidentifier():
            return (word,)  # a word stands for itself: order=row,column
        raise ValueError(f"{word!r} is neither a number nor a word") from None


def maker_of(kernel: JITKernel, space: Mapping[str, Any]) -> tuple[JITFunction, dict[str, Any]]:
    """The function of a namespace that made `kernel`, and the build-time arguments that it was called with.

    Raises: TileTypeError if none did.
    """
    for value in list(space.values()):
        try:
            function = jitted(value) if isinstance(value, JITFunction) or hasattr(value, "jitted") else None
        except TileError:
            continue
        if function is not None and (arguments := function.arguments_of(kernel)) is not None:
            return function, arguments
    raise TileTypeError(
        f"--tune cannot make {kernel.name} again: no function of the notebook made it",
        hint="write the kernel as a function under @tileworkbench.jit, with its block sizes as parameters",
    )


def tunables_of(function: JITFunction, arguments: Mapping[str, Any], asked: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Keywords for `workbench`: the asked tunables with their steps, the other build-time arguments with their values.

    Without asked ones every parameter that has a default may be turned, so only those without one are fixed.
    Raises: TileValueError for a tunable that is no build-time parameter of the function.
    """
    runtime = set(_runtime(function))
    names = [n for n in function.signature.parameters if n not in runtime]
    for name in asked:
        if name not in names:
            raise TileValueError(f"{function.function.__name__} has no build-time parameter {name}", hint=f"it has {', '.join(names) or 'none'}")
    defaults = {n for n, p in function.signature.parameters.items() if p.default is not p.empty}
    keep = (n for n in names if n in arguments and n not in asked and (asked or n not in defaults))
    return {**{n: arguments[n] for n in keep}, **{n: list(values) for n, values in asked.items()}}


def bench_of(kernel: JITKernel, call: BoundCall, asked: Mapping[str, tuple[Any, ...]], space: Mapping[str, Any], **options: Any) -> Workbench:
    """The workbench of a launch: where the author's call stood, on its arrays. `options` are those of `workbench`.

    Raises: TileTypeError if no function of `space` made the kernel; TileValueError for tunables that it does not have.
    """
    function, arguments = maker_of(kernel, space)
    tunables = tunables_of(function, arguments, asked)
    made = workbench(function, arrays_of(call), **tunables, **options)
    start = {t.name: arguments[t.name] for t in made.space.tunables if arguments.get(t.name) in t.values}
    made.engine.place = place_of(made.space, start, made.engine.place)
    return made


def arrays_of(call: BoundCall) -> tuple[Any, ...]:
    """The inputs of a call in its order: arrays and scalars."""
    tensors = {t.spec.name: t for t in call.tensors}
    found = []
    for spec in call.signature.inputs:
        bound = tensors.get(spec.name)
        found.append(call.scalars[spec.name] if bound is None else bound.unpacked if bound.unpacked is not None else bound.array)
    return tuple(found)


def _runtime(function: JITFunction) -> tuple[str, ...]:
    try:
        return signature_of(function.function).runtime
    except TileError:  # * parameters: a factory
        return ()
