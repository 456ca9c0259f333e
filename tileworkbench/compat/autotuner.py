"""`tileworkbench.autotuner`: TileLang's search functions."""

from __future__ import annotations

from tileworkbench.tune.autotune import AutoTuner, AutotuneResult, Failure, autotune, get_autotune_inputs, set_autotune_inputs

__all__ = ["AutoTuner", "AutotuneResult", "Failure", "autotune", "get_autotune_inputs", "set_autotune_inputs"]
