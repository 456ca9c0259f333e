"""`python -m tileworkbench` is the command `tileworkbench`."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
