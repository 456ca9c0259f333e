"""`jit`, `compile` and what they give: both styles, outputs, options, names, and every misuse."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from runtime.programs import add, matmul_program, scale_program

import tileworkbench
import tileworkbench.language as T
from tileworkbench.base.errors import ArgumentError, TileTypeError, TileValueError
from tileworkbench.ir.stmt import Kernel
from tileworkbench.runtime.kernel import JITKernel

X = np.arange(100, dtype=np.float32)


@tileworkbench.jit(out_idx=[-1], target="interpret")
def matmul(M, N, K, block=16):
    return matmul_program(M, N, K, block=block)


# ------------------------------------------------------------------------------------------- lazy
def test_lazy_call_gives_one_kernel_for_the_same_arguments() -> None:
    kernel = matmul(8, 6, 4)
    assert isinstance(kernel, JITKernel)
    assert matmul(8, 6, 4) is kernel
    assert matmul(8, 6, K=4) is not None
    assert matmul(8, 6, 4, block=32) is not kernel
    assert repr(kernel) == "<kernel matmul(A: float32[8, 4], B: float32[4, 6]) -> float32[8, 6], target interpret>"
    assert repr(matmul) == "<jit function matmul (lazy)>"
    assert kernel.schedule == {"M": 8, "N": 6, "K": 4, "block": 16}
    assert kernel.out_idx == [2]
    a, b = np.ones((8, 4), np.float32), np.ones((4, 6), np.float32)
    assert (kernel(a, b) == 4).all()


def test_lazy_without_a_kernel() -> None:
    assert matmul.get_tir(8, 6, 4).name == "matmul"
    assert matmul.compile(8, 6, 4) is matmul(8, 6, 4)
    assert "matmul" in matmul.get_kernel_source(8, 6, 4)
    first, second = matmul.par_compile([(8, 6, 4), {"M": 9, "N": 6, "K": 4}])
    assert first is matmul(8, 6, 4)
    assert second.params[0].shape == (9, 4)


def test_par_compile_may_ignore_errors() -> None:
    configs = [(8, 6, 4, 16), (8, 6, 4, -1)]
    with pytest.raises(ValueError):
        matmul.par_compile(configs)
    assert [k is None for k in matmul.par_compile(configs, ignore_error=True)] == [False, True]


@pytest.mark.parametrize("out_idx", [-1, 2, [-1], (2,)])
def test_out_idx(out_idx: Any) -> None:
    kernel = tileworkbench.compile(matmul_program(8, 6, 4), out_idx=out_idx, target="interpret")
    assert kernel.out_idx == [2]


def test_several_outputs_in_the_order_of_out_idx() -> None:
    @T.prim_func
    def split(A: T.Tensor((4,), "float32"), low: T.Tensor((4,), "float32"), high: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=1):
            for i in T.Parallel(4):
                low[i] = A[i] - 1.0
                high[i] = A[i] + 1.0

    for target in ("c", "interpret"):
        kernel = tileworkbench.compile(split, out_idx=[2, 1], target=target)
        for _ in range(3):
            high, low = kernel(np.zeros(4, np.float32))
            assert (high == 1).all()
            assert (low == -1).all()


@pytest.mark.parametrize(
    ("out_idx", "text"),
    [
        (3, "out_idx 3 is out of range: kernel matmul has 3 parameters"),
        (-4, "out_idx -4 is out of range"),
        ([2, -1], "out_idx names parameter C of kernel matmul twice"),
        ("C", "out_idx must be a number or a list of numbers, got 'C'"),
    ],
)
def test_bad_out_idx(out_idx: Any, text: str) -> None:
    with pytest.raises((TileValueError, TileTypeError)) as caught:
        tileworkbench.compile(matmul_program(8, 6, 4), out_idx=out_idx, target="interpret")
    assert text in str(caught.value)


def test_out_idx_of_a_scalar() -> None:
    with pytest.raises(TileValueError, match="out_idx 1 is the scalar factor of kernel scale; only tensors are returned"):
        tileworkbench.compile(scale_program(8), out_idx=1, target="interpret")


# ------------------------------------------------------------------------------------------- eager
def test_eager_call_specialises_by_size() -> None:
    for size in (100, 7, 100, 1, 0):
        for _ in range(3):
            np.testing.assert_array_equal(add(X[:size], X[:size]), X[:size] * 2)
    assert repr(add) == "<jit function add (eager)>"


def test_eager_takes_keywords_in_any_order() -> None:
    for _ in range(3):
        np.testing.assert_array_equal(add(B=X, block=16, A=X), X * 2)
        np.testing.assert_array_equal(add(X, B=X), X * 2)


def test_eager_in_torch() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(50.0)
    for _ in range(3):
        got = add(x, x)
        assert isinstance(got, torch.Tensor)
        assert torch.equal(got, x * 2)


def test_eager_compile_by_names_placeholders_and_arrays() -> None:
    kernels = [add.compile(N=33), add.compile(T.Tensor((33,), "float32"), T.Tensor((33,), "float32")), add.compile(X[:33], X[:33])]
    assert kernels[0] is kernels[1] is kernels[2]
    assert kernels[0].schedule == {"block": 32, "N": 33}
    np.testing.assert_array_equal(kernels[0](X[:33], X[:33]), X[:33] * 2)
    assert isinstance(add.get_tir(N=33), Kernel)


def test_eager_faults() -> None:
    with pytest.raises(ArgumentError, match="add: nothing says how large N is"):
        add.compile()
    with pytest.raises(ArgumentError, match=r"add has no parameter or T.const named 'Q'\n  hint: its T.const names are: N"):
        add.compile(N=3, Q=4)
    with pytest.raises(ArgumentError, match="argument A: expected an array, got a list"):
        add([1.0], X)
    with pytest.raises(ArgumentError, match=r"argument A: expected 1 dim \(N\), got 2"):
        add(X.reshape(10, 10), X)
    with pytest.raises(ArgumentError, match=r"argument B: dim 0 is 99, but N is 100 from A.shape\[0\]"):
        add(X, X[:99])
    with pytest.raises(ArgumentError, match="add: too many positional arguments"):
        add(X, X, 32, 4)
    with pytest.raises(ArgumentError, match="add: missing a required argument: 'B'"):
        add(X)
    np.testing.assert_array_equal(add(X, X), X * 2)


def test_eager_size_that_names_its_source() -> None:
    with pytest.raises(ArgumentError) as caught:
        add(X, X[:99])
    assert str(caught.value) == (
        "argument error: kernel add, argument B: dim 0 is 99, but N is 100 from A.shape[0] (expected shape (100,), got (99,))\n"
        "  hint: the sizes of the arguments must agree"
    )


def test_eager_with_out_idx() -> None:
    @tileworkbench.jit(out_idx=-1)
    def wrong(A):
        A: T.Tensor((4,), T.float32)
        with T.Kernel(1, threads=1):
            A[0] = 1.0

    with pytest.raises(TileValueError, match="wrong opens T.Kernel itself, so out_idx cannot be given\n  hint: declare its outputs with T.empty"):
        wrong(np.zeros(4, np.float32))


def test_eager_writes_its_arguments_and_has_runtime_scalars() -> None:
    @tileworkbench.jit
    def fill(A, value: T.float32, rows: T.int32 = 2):
        M, N = T.const("M N")
        A: T.Tensor((M, N), T.float32)
        with T.Kernel(1, threads=1):
            for i, j in T.Parallel(rows, N):
                A[i, j] = value

    a = np.zeros((3, 4), np.float32)
    for value in (1.0, 2.0, 3.0, 4):
        assert fill(a, value) is None
        assert a.tolist() == [[value] * 4] * 2 + [[0] * 4]
    fill(a, 5.0, 3)
    assert (a == 5).all()
    assert len({id(fill.compile(a, v)) for v in (1.0, 2.0)}) == 1, "run-time scalars are not part of the key"


def test_build_time_values_of_every_kind() -> None:
    @tileworkbench.jit(target="interpret")
    def scaled(A, options, dtype=T.float32):
        A: T.Tensor((4,), dtype)
        B = T.empty((4,), dtype)
        with T.Kernel(1, threads=1):
            for i in T.Parallel(4):
                B[i] = A[i] * options["by"]
        return B

    a = np.ones(4, np.float32)
    for by in (2, 3, 2):
        assert (scaled(a, {"by": by}) == by).all()
    assert (scaled(a.astype(np.float64), {"by": 2}, T.float64) == 2).all()
    assert (scaled(a, {"by": 2}, dtype="float32") == 2).all()


# ------------------------------------------------------------------------------------------- misuse
def test_factory_that_returns_something_else() -> None:
    @tileworkbench.jit
    def nothing(n):
        return n

    with pytest.raises(TileTypeError, match="`nothing` returned int 3, which is no kernel"):
        nothing(3)


def test_missing_argument_of_a_factory() -> None:
    with pytest.raises(ArgumentError, match="missing a required argument: 'K'"):
        tileworkbench.jit(matmul.function, out_idx=-1)(8, 6)


def test_jit_of_the_wrong_thing() -> None:
    with pytest.raises(TileTypeError, match="matmul is decorated with jit twice"):
        tileworkbench.jit(matmul)
    with pytest.raises(TileTypeError, match="jit takes the function that makes the program"):
        tileworkbench.jit(matmul_program(8, 6, 4))
    with pytest.raises(TileTypeError, match="jit takes a function, got int"):
        tileworkbench.jit(3)
    with pytest.raises(TileTypeError, match="compile takes a T.prim_func, got function"):
        tileworkbench.compile(lambda: 0)


@pytest.mark.parametrize("threads", [0, -1, 1.5, True])
def test_bad_num_threads(threads: Any) -> None:
    with pytest.raises(TileValueError, match="num_threads must be a whole number of at least 1"):
        tileworkbench.jit(num_threads=threads)


def test_unknown_target() -> None:
    with pytest.raises(TileValueError, match=r"there is no target 'cude'\n  hint: the targets here are c, interpret"):
        tileworkbench.compile(matmul_program(8, 6, 4), target="cude")


# ------------------------------------------------------------------------------------------- options and looks
def test_options_of_tilelang_are_accepted_and_listed() -> None:
    keys = tileworkbench.PassConfigKey
    kernel = tileworkbench.compile(
        matmul_program(8, 6, 4),
        out_idx=-1,
        target="interpret",
        execution_backend="cython",
        pass_configs={keys.TL_ENABLE_FAST_MATH: True, "tl.disable_warp_specialized": True, keys.TL_SOME_NEW_ONE: 3},
    )
    assert kernel.ignored_configs == ("tl.disable_warp_specialized", "tl.enable_fast_math", "tl.some_new_one")


@pytest.mark.parametrize("target", ["c", {"kind": "c", "arch": "x"}, "llvm", "c -keys=cpu"])
def test_spellings_of_a_target(target: Any) -> None:
    assert tileworkbench.compile(scale_program(8), target=target).target == "c"


def test_target_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "interpret")
    assert tileworkbench.compile(scale_program(8)).target == "interpret"
    assert tileworkbench.compile(scale_program(8), target="auto").target == "interpret"
    monkeypatch.setenv("TILEWORKBENCH_TARGET", "c")
    assert tileworkbench.compile(scale_program(8)).target == "c"


def test_wrapper_looks_like_the_function() -> None:
    assert matmul.__name__ == "matmul"
    assert list(inspect.signature(matmul).parameters) == ["M", "N", "K", "block"]


def test_kernel_object(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = tileworkbench.compile(matmul_program(8, 6, 4), out_idx=-1, target="c")
    assert "expand_tiles" in [p.name for p in kernel.passes]
    assert any(p.changed for p in kernel.passes)
    assert kernel.get_kernel_source() == kernel.source == kernel.get_host_source()
    kernel.show_source()
    assert kernel.source in capsys.readouterr().out
    folder = kernel.export(str(tmp_path / "out"))
    assert sorted(p.name for p in folder.iterdir()) == ["matmul.c", "matmul.so", "matmul.tile.txt"]
    kernel.export_sources(kernel_path=str(tmp_path / "k.c"))
    kernel.print_source_code(file=str(tmp_path / "p.c"))
    assert (tmp_path / "k.c").read_text() == (tmp_path / "p.c").read_text() == kernel.source
    assert (kernel.n_regs, kernel.n_spills, kernel.resource_usage, kernel.config, kernel.latency) == (None, None, {}, None, None)
    with pytest.raises(NotImplementedError, match="no PTX or SASS"):
        kernel.show_ptx()
    timing = kernel.profile(np.ones((8, 4), np.float32), np.ones((4, 6), np.float32), runs=3)
    assert len(timing.runs_ms) == 3
    assert "measured" in str(timing)
    assert str(kernel.report(tileworkbench.base.machine.REFERENCE_CPU).verdict)


def test_interpreted_kernel_has_no_library() -> None:
    kernel = matmul(8, 6, 4)
    with pytest.raises(NotImplementedError, match='makes no library\n  hint: compile with target="c"'):
        kernel.export_library("x.so")
    assert "matmul" in kernel.source
    assert kernel.facts.notes == ("interpreted: correct, and slow",)


def test_report_of_a_dynamic_kernel_needs_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before this machine is measured, which takes seconds."""
    monkeypatch.setattr(JITKernel, "machine", property(lambda _: pytest.fail("measured")))
    m = T.dynamic("m")
    kernel = tileworkbench.compile(matmul_program(m, 6, 4), out_idx=-1, target="interpret")
    with pytest.raises(ArgumentError, match=r"a report on kernel matmul needs values for m\n  hint: pass args="):
        kernel.report()
    machine = tileworkbench.base.machine.REFERENCE_CPU
    assert kernel.report(machine, args=(np.ones((8, 4), np.float32), np.ones((4, 6), np.float32))).verdict


def test_number_of_threads() -> None:
    kernel = tileworkbench.compile(scale_program(8), num_threads=1)
    assert kernel.num_threads == 1
    kernel.num_threads = 2
    assert kernel.num_threads == 2
    with pytest.raises(ValueError, match="at least 1"):
        kernel.num_threads = 0
