"""Make .github/panel.png, the README's picture: python .github/picture.py

Runs the README's first kernel in a `%%tile` cell and takes a picture of the panel with chromium (Debian: apt-get install chromium).
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

HERE = Path(__file__).resolve().parent
CALL = """
A, B = (np.random.default_rng(0).standard_normal((1024, 1024)).astype("float32") for _ in range(2))
C = matmul(A, B, BM=128, BN=256, BK=64)
"""


def panel_html() -> str:
    """The HTML of the panel under a cell with the README's kernel and one call."""
    source = re.search(r"^```python\n(.*?)^```$", (HERE.parent / "README.md").read_text(), flags=re.M | re.S)
    assert source
    kernel = source[1][: source[1].index("\nA, B =")]
    shell = InteractiveShell.instance()
    shell.run_cell("%load_ext tileworkbench")
    with capture_output() as captured:
        shell.run_cell(f'%%tile --check "A @ B"\n{kernel}{CALL}').raise_error()
    return str(captured.outputs[0].data["text/html"])


def main() -> None:
    page = f'<!doctype html><meta charset="utf-8"><body style="margin:16px;background:#fff;color:#1f2328">{panel_html()}</body>'
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "panel.html"
        file.write_text(page)
        options = ["--headless", "--no-sandbox", "--hide-scrollbars", "--force-device-scale-factor=1.5", "--window-size=940,1000"]
        subprocess.run(["chromium", *options, f"--screenshot={HERE / 'panel.png'}", file.as_uri()], check=True, capture_output=True)


if __name__ == "__main__":
    main()
