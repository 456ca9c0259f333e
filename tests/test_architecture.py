"""The tree's own rules: which room may import which, where imports stand, how long a file may be, what a file may not mention."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "tileworkbench"

# From the lowest room to the highest: a room imports itself and what stands before it.
ORDER = (
    "base", "layout", "language", "ir", "frontend", "analysis", "transform", "codegen", "device", "interpret", "emulator",
    "model", "runtime", "tune", "kernels", "views", "notebook", "bench", "demo", "cli", "__main__",
)  # fmt: skip

# Names that TileLang's programs import from the top of the package; they hold no logic and may see every room.
FRONT = ("__init__", "compat")

# A room that may see less than the order allows, and why.
NARROWED = {
    "language": ({"base", "layout"}, "it holds words only; the meanings are bound by the frontend"),
    "views": ({"base", "layout", "language", "ir", "analysis", "interpret", "model", "runtime"}, "a view shows values and knows no compiler"),
    "codegen": ({"base", "layout", "ir", "analysis", "transform"}, "an emitter decides nothing and asks no frontend"),
}

# Third-party packages that are optional or slow to import, and so may be imported inside a function.
LAZY = {
    "IPython", "PIL", "anywidget", "cuda", "cupy", "dask", "ipywidgets", "jax",
    "jupyter_client", "jupyterlab", "latex2mathml", "matplotlib", "ml_dtypes", "platformdirs",
    "playwright", "pygments", "pytest", "threadpoolctl", "tilelang", "torch", "traitlets", "ziglang",
}  # fmt: skip

# (file, room): a room that a front imports only when it is asked for, since importing the package must stay quick.
ON_REQUEST = {("__init__.py", "notebook")}

MAX_LINES = 400


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    """The first folder under the package, or the module's own name at the top: `runtime`, `cli`, `__init__`."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[ast.stmt, str, bool]]:
    """Every import as (statement, absolute dotted name, whether it stands in a function); `if TYPE_CHECKING:` blocks do not count."""
    package = ("tileworkbench", *path.relative_to(PACKAGE).parent.parts)

    def names(node: ast.stmt) -> Iterator[str]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            full = ".".join(part for part in (base, node.module) if part)
            yield from (f"{full}.{alias.name}" for alias in node.names)

    def visit(node: ast.AST, inside: bool) -> Iterator[tuple[ast.stmt, str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import | ast.ImportFrom):
                yield from ((child, name, inside) for name in names(child))
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                yield from visit(ast.Module(body=child.orelse, type_ignores=[]), inside)
            else:
                yield from visit(child, inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))

    yield from visit(ast.parse(path.read_text(encoding="utf-8")), False)


def allowed(room: str) -> set[str]:
    if room in FRONT:
        return {*ORDER, *FRONT}
    if room in NARROWED:
        return {room, *NARROWED[room][0]}
    return set(ORDER[: ORDER.index(room) + 1])


def target_room(name: str) -> str | None:
    """The room that a dotted name points into; None for other packages. The package itself counts as `__init__`."""
    head, _, rest = name.partition(".")
    if head != "tileworkbench":
        return None
    first = rest.partition(".")[0]
    return first if first in ORDER or first in FRONT or (PACKAGE / first).is_dir() and first else "__init__"


def rooms_on_disk() -> set[str]:
    return {room_of(path) for path in modules()}


def test_every_room_stands_in_the_table() -> None:
    """A folder or top module is either in the order or a front for TileLang's names."""
    fronts = {room for room in rooms_on_disk() - set(ORDER) if is_front(room)}
    assert rooms_on_disk() - set(ORDER) - fronts == set()


def is_front(room: str) -> bool:
    """Whether a top module only hands names on: `__init__`, compat, and thin modules such as tileworkbench/autotuner.py."""
    if room in FRONT:
        return True
    path = PACKAGE / f"{room}.py"
    path = path if path.exists() else PACKAGE / room / "__init__.py"
    if not path.exists():
        return False
    kinds = (ast.Import, ast.ImportFrom, ast.Expr, ast.Assign, ast.AnnAssign)
    return all(isinstance(node, kinds) for node in ast.parse(path.read_text(encoding="utf-8")).body)


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_run_one_way(path: Path) -> None:
    room = room_of(path)
    if room not in ORDER:
        return
    may = allowed(room)
    wrong = [f"line {node.lineno}: {name}" for node, name, _ in imports(path) if (to := target_room(name)) is not None and to not in may]
    reason = NARROWED[room][1] if room in NARROWED else "imports run from the top of ORDER to its end"
    assert not wrong, f"{path.relative_to(ROOT)} imports against the order ({reason}): " + "; ".join(wrong)


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_import_inside_a_function(path: Path) -> None:
    here = str(path.relative_to(PACKAGE))
    hidden = [(node.lineno, name) for node, name, inside in imports(path) if inside and name.split(".")[0] not in LAZY]
    wrong = [f"line {line}: {name}" for line, name in hidden if (here, target_room(name)) not in ON_REQUEST]
    assert not wrong, f"{path.relative_to(ROOT)} imports inside a function, so the code stands in the wrong room: " + "; ".join(wrong)


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_files_stay_short(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_LINES, f"{path.relative_to(ROOT)} has {lines} lines; look for the second room in it"


def committed_texts() -> list[Path]:
    """Every text file that a clone would hold, by its ending, without build folders."""
    endings = {".py", ".md", ".toml", ".ipynb", ".c", ".txt", ".html", ".js", ".css", ".yml"}
    folders = ("tileworkbench", "tests", "notebooks", "extensions", ".github", ".ci")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file() and (path.suffix in endings or folder == ".ci")]
    return sorted([*files, *(path for path in ROOT.iterdir() if path.suffix in endings)])


def test_no_file_names_another_place() -> None:
    """A file speaks of this tree only: no absolute home, no neighbour folder that a clone does not have."""
    places = ["/wo" + "rk/", "/ro" + "ot/", "../sha" + "red", "sha" + "red/compat", "sha" + "red/cases", "pl" + "an.md"]
    wrong = [
        f"{path.relative_to(ROOT)}: {place}"
        for path in committed_texts()
        for place in places
        if "__pycache__" not in path.parts and place in path.read_text(encoding="utf-8", errors="replace")
    ]
    assert not wrong, "\n".join(wrong)


def test_the_table_would_catch_a_wrong_edge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check itself, on a made-up tree: an upward import, a hidden import, and a relative one that leaves its room."""
    room = tmp_path / "ir"
    room.mkdir()
    (tmp_path / "runtime").mkdir()
    bad = room / "bad.py"
    bad.write_text("from ..runtime import kernel\nfrom .node import Node\n\ndef f():\n    import json\n    import torch\n")
    monkeypatch.setitem(imports.__globals__, "PACKAGE", tmp_path)
    found = [(name, inside) for _, name, inside in imports(bad)]
    assert found == [("tileworkbench.runtime.kernel", False), ("tileworkbench.ir.node.Node", False), ("json", True), ("torch", True)]
    assert target_room("tileworkbench.runtime.kernel") not in allowed("ir")
    assert target_room("tileworkbench.ir.node.Node") in allowed("ir")
    assert target_room("numpy.linalg") is None
