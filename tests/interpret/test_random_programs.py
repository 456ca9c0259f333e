"""The interpreter and the C target agree on random programs, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from codegen.c_harness import COMPILERS
from codegen.differ import agree, random_array
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_programs import COLS, ROWS, thread_programs, tile_programs

pytestmark = pytest.mark.skipif(not COMPILERS, reason="no C compiler")
QUICK = settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))


@QUICK
@given(thread_programs(), st.integers(0, 9))
def test_thread_programs(program, seed):
    kernel, threads = program
    agree(kernel, [random_array((40,), "int32", seed), np.zeros(2 * threads, np.int32)])


@QUICK
@given(tile_programs(), st.integers(0, 9))
def test_tile_programs(kernel, seed):
    agree(kernel, [random_array((9, 8), "int32", seed), np.zeros((3 * ROWS, COLS), np.int32), np.zeros(3, np.int32)])
