"""Make .github/panel.png, the README's picture: python .github/picture.py

Runs the README's first kernel in a real JupyterLab with `%%tile --tune`, moves a slider, waits for the run, and takes a picture of the cell with its
workbench. Needs `pip install -e '.[test]'` and chromium (Debian: apt-get install chromium).
"""

from __future__ import annotations

import re
from pathlib import Path

from tileworkbench.bench import lab

HERE = Path(__file__).resolve().parent
CALL = """\
%%tile --tune "BM=32,64,128,256; BN=64,128,256; BK=32,64,128" --check "A @ B" --show none
C = matmul(A, B, BM=64, BN=64, BK=32)"""
DATA = 'A, B = (np.random.default_rng(0).standard_normal((1024, 1024)).astype("float32") for _ in range(2))'


def cells() -> list[str]:
    """The notebook: the README's kernel, and one call of it under `%%tile`."""
    source = re.search(r"^```python\n(.*?)^```$", (HERE.parent / "README.md").read_text(), flags=re.M | re.S)
    assert source
    kernel = source[1][: source[1].index("\nA, B =")]
    return [f"%load_ext tileworkbench\n{kernel}\n{DATA}", CALL]


def main() -> None:
    """Take the picture."""
    if why := lab.missing():
        raise SystemExit(why)
    with lab.opened(cells(), width=1500, height=1000, scale=1.5) as page:
        page.locator(".twb-status", has_text="run 1").last.wait_for(timeout=120_000)
        page.wait_for_timeout(4000)  # the other positions are predicted ahead
        for name, step in (("BM", 2), ("BN", 2), ("BK", 2)):
            slider = page.get_by_role("slider", name=name).last
            slider.evaluate("(n, step) => { n.value = step; n.dispatchEvent(new Event('input', { bubbles: true })); }", step)
            page.wait_for_timeout(2500)
        page.add_style_tag(content=".jp-Toolbar-responsive-popup, .jp-cell-menu, .jp-cell-toolbar { display: none !important; }")
        cell = page.locator(".jp-CodeCell").last
        cell.scroll_into_view_if_needed()
        page.mouse.move(5, 5)
        page.wait_for_timeout(500)
        cell.screenshot(path=str(HERE / "panel.png"))


if __name__ == "__main__":
    main()
