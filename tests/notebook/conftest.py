"""A real IPython shell for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.testing.globalipapp import start_ipython
from IPython.utils.capture import capture_output


@dataclass
class Ran:
    """What one cell did: whether it succeeded, its error, what it printed, its displays as mime bundles, and its value."""

    success: bool
    error: BaseException | None
    text: str
    displays: list[dict[str, Any]] = field(default_factory=list)
    value: object = None


@dataclass
class Notebook:
    """Runs cells in a shell, as a notebook does."""

    shell: InteractiveShell

    def run(self, cell: str) -> Ran:
        with capture_output() as captured:
            result = self.shell.run_cell(cell, store_history=True)
        error = result.error_before_exec or result.error_in_exec
        return Ran(result.success, error, captured.stdout + captured.stderr, [dict(o.data) for o in captured.outputs], result.result)

    def __getitem__(self, name: str) -> Any:
        return self.shell.user_ns[name]

    def __contains__(self, name: str) -> bool:
        return name in self.shell.user_ns


@pytest.fixture(scope="session")
def _shell() -> InteractiveShell:
    shell = start_ipython() or InteractiveShell.instance()
    shell.colors = "nocolor"
    return shell


@pytest.fixture
def notebook(_shell: InteractiveShell) -> Iterator[Notebook]:
    """A notebook with an empty namespace and with the extension not loaded."""
    _shell.reset(new_session=True)
    _shell.execution_count = 1
    yield Notebook(_shell)
    if "tileworkbench" in _shell.extension_manager.loaded:
        _shell.extension_manager.unload_extension("tileworkbench")
