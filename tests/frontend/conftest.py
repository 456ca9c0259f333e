"""What tests of the words run on."""

from __future__ import annotations

import pytest
from frontend.running import TARGETS, usable_targets

import tileworkbench


@pytest.fixture(params=TARGETS)
def run(request):
    """`run(kernel, *arrays)` runs a prim_func in place and gives back the last array."""
    if request.param == "c" and "c" not in usable_targets():
        pytest.skip("no C compiler here")

    def call(kernel, *arrays):
        tileworkbench.compile(kernel, target=request.param)(*arrays)
        return arrays[-1]

    return call
