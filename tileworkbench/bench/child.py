"""A measuring process of its own, which can import what this one can.

>>> python("print(6 * 7)").stdout
'42\\n'
"""

from __future__ import annotations

import os
import subprocess
import sys


def python(code: str, *, check: bool = False, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `code` with `variables` in its environment. Raises subprocess.CalledProcessError where it fails and `check` is set."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), **variables}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode; the first process may have to write it
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=check)
