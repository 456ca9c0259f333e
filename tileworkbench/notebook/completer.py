"""Completion of the options of `%%tile` on the first line of a cell; IPython offers none for cell magics by itself."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

Values = Mapping[str, Callable[[], list[str]]]


def install(shell: InteractiveShell, parser: argparse.ArgumentParser, values: Values) -> None:
    """Offer the options of `parser` after `%%tile`, and `values[option]()` after an option that takes one of a set."""
    remove(shell)

    @context_matcher()
    def tile_option_matcher(context: CompletionContext) -> SimpleMatcherResult:
        words = complete(context, parser, values)
        return {"completions": [SimpleCompletion(text=word, type="param") for word in words], "suppress": bool(words)}

    shell.Completer.custom_matchers.insert(0, tile_option_matcher)


def remove(shell: InteractiveShell) -> None:
    """Take the matcher of an earlier load away."""
    kept = [m for m in shell.Completer.custom_matchers if getattr(m, "__name__", "") != "tile_option_matcher"]
    shell.Completer.custom_matchers[:] = kept


def complete(context: CompletionContext, parser: argparse.ArgumentParser, values: Values) -> list[str]:
    """The words that may stand at the cursor; none outside the first line of a `%%tile` cell."""
    before = context.text_until_cursor
    if context.cursor_line != 0 or not before.startswith("%%tile "):
        return []
    words = before.split()
    current = "" if before[-1].isspace() else words[-1]
    previous = words[-1] if current == "" else words[-2]
    if previous in values:
        done, comma, last = current.rpartition(",")
        found = [done + comma + value for value in values[previous]() if value.startswith(last)]
    else:
        found = [o for action in parser._actions for o in action.option_strings if o.startswith(current or "--")]
    # IPython replaces `context.token`, which may begin after a dash or a comma of the word.
    lead = len(current) - len(context.token) if current.endswith(context.token) else 0
    return [word[lead:] for word in found if word != current]
