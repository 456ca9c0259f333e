"""What an architecture does not have is refused at the author's line; what an author asks for stands in front of a kernel."""

# mypy: disable-error-code="no-untyped-def, valid-type, untyped-decorator"

from __future__ import annotations

import pytest

import tileworkbench
import tileworkbench.language as T
from tileworkbench.base.errors import UnsupportedError
from tileworkbench.base.span import Span
from tileworkbench.codegen.cuda import emit_cuda
from tileworkbench.device import why_missing
from tileworkbench.ir.build import index
from tileworkbench.ir.device import DeviceCall
from tileworkbench.ir.expr import Var
from tileworkbench.ir.lowered import Grid
from tileworkbench.ir.stmt import Kernel


def fencing() -> Kernel:
    line = Span("author.py", 7, 8, 7, 30, text="        T.fence_proxy_async()")
    grid = Grid("k", (Var("bx"),), (index(1),), (), (DeviceCall("twb_fence_proxy_async", (), span=line),), threads=(32,))
    return Kernel("k", (), (), (), (grid,))


def test_a_function_that_an_architecture_lacks() -> None:
    assert "twb_fence_proxy_async();" in emit_cuda(fencing(), lambda name: why_missing(name, "sm_90a")).text
    with pytest.raises(UnsupportedError) as caught:
        emit_cuda(fencing(), lambda name: why_missing(name, "sm_80"))
    text = str(caught.value)
    assert "author.py:7:9" in text and "twb_fence_proxy_async needs sm_90 or newer, not sm_80" in text and "T.fence_proxy_async()" in text
    assert 'target="cuda:sm_90a"' in caught.value.hint


@pytest.mark.parametrize(("asked", "said"), [(0, "(1024)"), (2, "(1024, 2)"), (5, "(1024, 2)")])
def test_blocks_of_a_multiprocessor_bound_registers(asked: int, said: str) -> None:
    """No more of them than its 2048 threads make."""

    @T.prim_func
    def twice(X: T.Tensor((4096,), "float32"), Y: T.Tensor((4096,), "float32")):
        with T.Kernel(4, threads=1024) as bx:
            if asked:
                T.annotate_min_blocks_per_sm(asked)
            for i in T.Parallel(1024):
                Y[bx * 1024 + i] = 2 * X[bx * 1024 + i]

    assert f"__launch_bounds__{said} twice" in tileworkbench.compile(twice, target="emulate:sm_90a").source
