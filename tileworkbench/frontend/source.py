"""The syntax tree of a function, wherever it was written: a file, a notebook cell, a string given to `exec`.

`inspect.getsource` searches by name and fails on a cell that was run again; here the code object says where to look, `linecache` says
what is written there (IPython and exec'ed sources are registered with it), and the result is compared with the code object, so
that a stale source is never used in silence.
"""

from __future__ import annotations
import __future__

import ast
import linecache
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE
from types import CodeType, FunctionType

from ..base.errors import TileSyntaxError
from ..base.span import Span
from .positions import is_kernel_code, label_of
from .syntax import statements, walk

FUTURE = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names})
_STARTED = time.time()


@dataclass(frozen=True, slots=True)
class Source:
    """A function's definition with positions as in its file. The rewriter changes `tree`, except its root and parameters."""

    tree: ast.FunctionDef
    file: str
    declared: tuple[str, ...]  # names that the body annotates without a value: `A: T.Tensor(...)`
    noted: tuple[str, ...]  # names that annotations in the body read
    spare: list[ast.FunctionDef]  # trees to rewrite
    code: CodeType
    text: str

    def take_tree(self) -> ast.FunctionDef:
        """A tree of its own for the rewriter."""
        with suppress(IndexError):
            return self.spare.pop()
        again = _definition(self.text, self.text[:1] in " \t", self.code) or _definition(self.text, False, self.code, first=1)
        assert again is not None
        return again

    def span(self, node: ast.AST) -> Span:
        """The characters of `node`, for errors about the text itself."""
        line, end_line = getattr(node, "lineno", self.tree.lineno), getattr(node, "end_lineno", None) or self.tree.lineno
        text, last = linecache.getline(self.file, line).rstrip("\n"), linecache.getline(self.file, end_line)
        col, end = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", None)
        start, stop = _chars(text, col), _chars(last, end) if end is not None else len(last)
        return Span(self.file, line, start, end_line, stop, self.tree.name, label_of(self.file), text or None)

    def end(self) -> Span:
        """The `return` at the end of the function, else its head."""
        last = self.tree.body[-1]
        return self.span(last if isinstance(last, ast.Return) else self.tree)

    def parameter(self, name: str) -> Span:
        """Where the parameter `name` stands in the signature."""
        args = self.tree.args
        found = next(a for a in (*args.posonlyargs, *args.args, *args.kwonlyargs) if a.arg == name)
        return self.span(found)


_cache: dict[tuple[str, int, str, str], Source] = {}


def source_of(function: FunctionType) -> Source:
    """The definition of `function`; the same object for the same text at the same place.

    Raises: TileSyntaxError if its source cannot be read, or is not the one that was run.
    """
    code = function.__code__
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, function.__globals__)
    if not lines:
        raise TileSyntaxError(
            f"the source of `{code.co_name}` cannot be read ({code.co_filename})",
            hint="Python keeps no source for exec, `python -c` and standard input: write the kernel in a file or a notebook cell, "
            "or register its text in linecache.cache first",
        )
    if code.co_name == "<lambda>":
        raise TileSyntaxError("a lambda cannot be a kernel", span=_at(code), hint="use def")
    if code.co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR):
        raise TileSyntaxError("an async function cannot be a kernel", span=_at(code), hint="use def")
    block, is_indented = _block(lines, code.co_firstlineno)
    key = (code.co_filename, code.co_firstlineno, code.co_name, block)
    found = _cache.get(key)
    if found is None:
        tree = _definition(block, is_indented, code)
        is_whole = tree is not None
        tree = tree or _definition("".join(lines), False, code, first=1)  # a string in it reaches further left than the def
        if tree is None or not _agrees(tree, code, lines):
            raise TileSyntaxError(
                f"the source of `{code.co_name}` has changed since it was run", span=_at(code), hint="import the file again, or re-run the cell"
            )
        notes = [n for n in statements(tree) if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
        notes.sort(key=lambda n: n.lineno)
        declared = dict.fromkeys(n.target.id for n in notes if n.value is None and isinstance(n.target, ast.Name))
        noted = dict.fromkeys(n.id for note in notes for n in walk(note.annotation) if isinstance(n, ast.Name))
        found = Source(tree, code.co_filename, tuple(declared), tuple(noted), [tree], code, block if is_whole else "".join(lines))
        if is_whole:
            _cache[key] = found
    return found


def _definition(text: str, is_indented: bool, code: CodeType, first: int = 0) -> ast.FunctionDef | None:
    """The def in `text` whose first line (decorators included) is the code's first line."""
    try:
        lead = (first or code.co_firstlineno) - 1  # empty lines in front, so that the positions are those of the file
        module = ast.parse("\n" * (lead - 1) + "if 1:\n" + text if is_indented else "\n" * lead + text)
    except SyntaxError:
        return None
    for node in statements(module):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            if min([node.lineno, *(d.lineno for d in node.decorator_list)]) == code.co_firstlineno:
                return node
    return None


def _block(lines: list[str], first: int) -> tuple[str, bool]:
    """The lines of the def that starts at line `first`, judged by indentation; True if they are indented themselves."""
    indent = _indent(lines[first - 1]) if first <= len(lines) else 0
    end, in_def = first, False
    for number in range(first - 1, len(lines)):
        text = lines[number].strip()
        if not text or text[0] == "#":
            continue
        if text[0] in ")]}":  # the end of a bracket may reach further left than the def
            end = number + 1
            continue
        depth = _indent(lines[number])
        if in_def and depth <= indent:
            break
        in_def = in_def or text.startswith("def ")
        end = number + 1
    return "".join(lines[first - 1 : end]), indent > 0


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _agrees(tree: ast.FunctionDef, code: CodeType, lines: list[str]) -> bool:
    """True if `tree` can be what `code` was compiled from: same parameters, and every name of the code occurs in the text."""
    args = tree.args
    names = [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    if tuple(names) != code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        return False
    if not is_kernel_code(code) and not code.co_filename.startswith("<") and _changed_while_running(code.co_filename):
        return _same_code("".join(lines), code)
    return True


def _changed_while_running(file: str) -> bool:
    try:
        return os.stat(file).st_mtime > _STARTED
    except OSError:
        return False


def _same_code(text: str, code: CodeType) -> bool:
    """Compile the whole text and compare. Code that a tool rewrote (pytest's assertions) is only compared by its parameters."""
    if any(name.startswith("@py") for name in (*code.co_varnames, *code.co_names)):
        return True
    stack = [compile(text, code.co_filename, "exec", flags=code.co_flags & FUTURE, dont_inherit=True)]
    while stack:
        found = stack.pop()
        nested = [c for c in found.co_consts if isinstance(c, CodeType)]
        if (found.co_name, found.co_firstlineno) == (code.co_name, code.co_firstlineno):
            plain = [c for c in code.co_consts if not isinstance(c, CodeType)]
            return found.co_code == code.co_code and [c for c in found.co_consts if not isinstance(c, CodeType)] == plain
        stack += nested
    return False


def _at(code: CodeType) -> Span:
    file, line = code.co_filename, code.co_firstlineno
    while linecache.getline(file, line).lstrip().startswith("@"):  # the first line of a function is that of its first decorator
        line += 1
    text = linecache.getline(file, line).rstrip("\n")
    return Span(file, line, _indent(text), line, len(text), label=label_of(file), text=text or None)


def _chars(text: str, column: int) -> int:
    return column if text.isascii() else len(text.encode()[:column].decode(errors="ignore"))
