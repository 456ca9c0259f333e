"""The process that works on the GPU: reads the number of a problem a line, answers with a JSON line.

A kernel that faults takes the whole CUDA context with it, and one that hangs keeps it: the process that asks ends this one then, and starts another.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from typing import Any

from .match import Bench, cuda_bench, play
from .problems import PROBLEMS


def answer(bench: Bench, number: int) -> dict[str, Any]:
    """The result of a problem as plain values. "broken": the context is lost, and nothing more can run here."""
    found = play(bench, PROBLEMS[number]).data()
    try:
        bench.clock.wait()
        gc.collect()
        if bench.device == "cuda":
            bench.torch.cuda.empty_cache()
    except Exception as error:  # the fault of a kernel, which shows at the next word to the driver
        found["why"] = found["why"] or f"{type(error).__name__}: {error}".splitlines()[0]
        return {"broken": True, **found, "status": "failed"}
    return found


def main() -> None:
    """Answer until the input ends or the context is lost."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer

    def say(value: dict[str, Any]) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    try:
        import torch

        if not torch.cuda.is_available():
            say({"absent": "PyTorch finds no GPU"})
            return
        torch.set_grad_enabled(False)
        bench = cuda_bench(torch)
        say({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": str(torch.version.cuda)})
    except ImportError as error:
        say({"absent": f"PyTorch cannot be imported: {error}"})
        return
    for line in sys.stdin:
        found = answer(bench, int(line))
        say(found)
        if found.get("broken"):
            return


if __name__ == "__main__":
    main()
