"""Casts, math, atomics, threads, effects, hints and the words of other targets."""

from __future__ import annotations

import math

import numpy as np
import pytest
from frontend.snippets import build, emitted, refusal

import tileworkbench.language as T
from tileworkbench.base.dtypes import DType
from tileworkbench.base.errors import JITNoBuilderError, TileError, TileNameError, TileValueError, UnsupportedError
from tileworkbench.frontend.values import Value
from tileworkbench.ir.expr import Const, Var
from tileworkbench.ir.printer import print_expr
from tileworkbench.language._dispatch import WORDS
from tileworkbench.language.gpu import STUBS
from tileworkbench.language.math import _function

IR = {
    # conversions and selections
    "V[0] = T.cast(A[k, 0], 'float32') + T.Cast('float32', W[0]) + T.float32(k)": "V[0] = float32(A[k, 0]) + float32(W[0]) + float32(k)",
    "V[0] = T.cast('float32', W[0])": "V[0] = float32(W[0])",
    "W[0] = T.reinterpret(V[0], 'int32') + T.reinterpret(T.int32, V[1])": "W[0] = reinterpret(V[0], int32) + reinterpret(V[1], int32)",
    "V[0] = T.if_then_else(k < 3, V[k], 0)": "V[0] = V[k] if k < 3 else 0.0f32",
    "V[0] = T.if_then_else(True, V[k], 0)": "V[0] = V[k]",
    "W[0] = T.Select(V[0] > 1, 1, 0)": "W[0] = 1i32 if V[0] > 1.0f32 else 0i32",
    "V[0] = T.max(V[0], 0) - T.min(1, V[1])": "V[0] = max(V[0], 0.0f32) - min(1.0f32, V[1])",
    "V[0] = T.clamp(V[0], -448, 448)": "V[0] = min(max(V[0], -448.0f32), 448.0f32)",
    "V[0] = T.max_value('float16') + T.min_value('float32')": "V[0] = -3.4028234663852886e+38f32",
    "V[0] = T.exp2(V[0] * 1.5) + T.rsqrt(V[1]) + T.sigmoid(A[0, 0])": ("V[0] = exp2(V[0] * 1.5f32) + rsqrt(V[1]) + float32(sigmoid(A[0, 0]))"),
    "V[0] = T.sqrt(W[0])": "V[0] = sqrt(float32(W[0]))",
    "W[0] = T.floor(W[1]) + T.popcount(W[2])": "W[0] = W[1] + popcount(W[2])",
    "W[0] = T.ceildiv(W[1], 5)": "W[0] = W[1] // 5i32 + int32(W[1] % 5i32 != 0i32)",
    "W[0] = T.ceildiv(k, 5)": "W[0] = int32((k + 4) // 5)",
    "W[0] = T.truncdiv(W[1], 7) + T.truncmod(W[1], 7) + T.floordiv(W[1], 7) + T.floormod(W[1], 7)": (
        "W[0] = truncdiv(W[1], 7i32) + truncmod(W[1], 7i32) + W[1] // 7i32 + W[1] % 7i32"
    ),
    "W[0] = T.shift_left(1, W[1]) | T.bitwise_and(W[0], 7)": "W[0] = 1i32 << W[1] | W[0] & 7i32",
    "V[0] = V[1] ** 2 + V[2] % 3.0": "V[0] = V[1] * V[1] + (V[2] - floor(V[2] / 3.0f32) * 3.0f32)",
    "V[0] = round(V[1])": "V[0] = nearbyint(V[1])",
    "V[0] = T.isnan(V[1]) + 0": "V[0] = float32(int32(isnan(V[1])))",
    "a, b = T.index_to_coordinates(k, (4, 8))\nV[a] = V[b]": "let a = k // 8 % 4\nlet b = k % 8\nV[a] = V[b]",
    # atomics
    "T.atomic_add(C[k, 0], A[k, 0])": "atomic 'add' C[k :+ 1, 0 :+ 1] <- float32(A[k, 0]), 'relaxed'",
    "T.atomic_max(C[k, 0], 42, memory_order='seq_cst')": "atomic 'max' C[k :+ 1, 0 :+ 1] <- 42.0f32, 'seq_cst'",
    "T.atomic_add(C[bx * 64, by * 64], F)": "atomic 'add' C[bx * 64 :+ 64, by * 64 :+ 64] <- F, 'relaxed'",
    "T.atomic_min(C[k, :], C[0, :])": "atomic 'min' C[k :+ 1, 0 :+ 256] <- C[0 :+ 1, 0 :+ 256], 'relaxed'",
    "slot = T.atomic_add(I[0], 1, return_prev=True)\nW[slot] = 1": (
        "let slot: int32 = atomic 'add' I[0 :+ 1] <- 1i32, 'relaxed'\nW[int64(slot)] = 1i32"
    ),
    "W[0] = T.atomic_load(I[3], 'acquire')": "let prev: int32 = atomic 'load' I[3 :+ 1] <- none, 'acquire'\nW[0] = prev",
    "T.atomic_store(I[3], k)": "atomic 'store' I[3 :+ 1] <- int32(k), 'seq_cst'",
    "T.atomic_addx2(C[0, 2 * k], V[2 * k])": (
        "atomic 'add' C[0 :+ 1, 2 * k :+ 1] <- V[2 * k], 'relaxed'\natomic 'add' C[0 :+ 1, 2 * k + 1 :+ 1] <- V[2 * k + 1], 'relaxed'"
    ),
    # threads
    "V[T.get_thread_binding()] = T.get_thread_binding(1)": "V[tx] = float32(ty)",
    "V[T.get_lane_idx()] = T.get_warp_idx()": "V[(tx + ty * 64) % 32] = float32((tx + ty * 64) // 32)",
    "V[0] = T.get_thread_extent(0) + T.get_block_extent(1) + T.get_block_binding(1)": "V[0] = float32(by + 68)",
    "T.sync_threads()": "sync 'block'",
    "T.sync_threads(1, 128)": "sync 'block'",
    "y = T.shfl_xor(V[0], 16)": "let y: float32 = collective 'shfl_xor' (V[0], 16i32), width=32",
    "V[0] = T.tvm_warp_shuffle(-1, V[0], k, 32, 32)": "let shfl: float32 = collective 'shfl' (V[0], int32(k)), width=32\nV[0] = shfl",
    "V[0] = T.warp_reduce_sum(V[0])": "let warp_sum: float32 = collective 'warp_sum' (V[0]), width=32\nV[0] = warp_sum",
    "if T.syncthreads_or(V[0] > 0):\n    V[1] = 1": (
        "let block_any: bool = collective 'block_any' (V[0] > 0.0f32), width=32\nif block_any:\n  V[1] = 1.0f32"
    ),
    "if T.shuffle_elect(32):\n    V[1] = 1": "if (tx + ty * 64) % 32 == 0:\n  V[1] = 1.0f32",
    "with T.attr(T.comm_reducer(lambda a, b: a + b, [T.float32(0)]), 'reduce_scope', T.reinterpret(T.uint64(0), dtype='handle')):\n"
    "    T.evaluate(T.tvm_thread_allreduce(T.uint32(1), V[0], True, L[0], T.get_thread_binding(1), dtype='handle'))": (
        "allreduce[tx + ty * 64] = V[0]\nsync 'block'\nL[0] = 0.0f32\nfor t in serial(0, 2):\n  L[0] = L[0] + allreduce[tx + t * 64]\nsync 'block'"
    ),
    # effects
    "T.print(V)": "print 'V' () of V",
    "T.print(k, 'k is ')": "print 'k is ' (k)",
    "T.device_assert(k < 4, 'too far')": "assert k < 4, 'too far'",
    "T.assume(k < 4)": "pass",
    "V[0] = T.call_extern('float32', 'f', V, T.address_of(W[k]), 3)": (
        "let result: float32 = extern['f', float32](address_of(V[0]), address_of(W[k]), 3i32)\nV[0] = result"
    ),
    "T.call_extern('handle', 'f', T.access_ptr(V, 'w'), k)": "evaluate extern['f', int32](address_of(V[0]), k)",
    "T.call_extern('f', k, dtype='void')": "evaluate extern['f', int32](k)",
    "T.loop_break()": "break",
    "T.thread_return()": "return",
    # hints change nothing in the body
    "T.use_swizzle(10)\nT.annotate_layout({S: T.Layout((64, 32), lambda i, j: (i, j))})\nT.disable_warp_group_reg_alloc()": "pass",
    "T.ptx_commit_group()\nT.ptx_wait_group(0)": "pass",
}


@pytest.mark.parametrize("statement", IR)
def test_ir(statement):
    assert emitted(statement) == IR[statement]


def test_threads_become_visible_only_when_one_asks():
    assert not build("T.sync_threads()").kernel.launches[0].threads_used
    assert build("V[T.get_thread_binding()] = 0").kernel.launches[0].threads_used
    assert build("V[0] = T.warp_reduce_max(V[0])").kernel.launches[0].threads_used


def test_hints_are_recorded_with_the_launch():
    launch = build("T.use_swizzle(panel_size=8)\nT.use_swizzle(4, enable=False)\nT.annotate_min_blocks_per_sm(2)").kernel.launches[0]
    assert launch.hints == (("use_swizzle", "8"), ("annotate_min_blocks_per_sm", "2"))


def test_blocks_of_a_multiprocessor_are_a_number():
    with pytest.raises(TileValueError, match=r"T\.annotate_min_blocks_per_sm: 0 blocks"):
        build("T.annotate_min_blocks_per_sm(0)")


def test_a_safe_value_belongs_to_the_buffer():
    kernel = build("T.annotate_safe_value({A: -T.infinity('float16'), X: 1})").kernel
    assert [p.buffer.safe_value for p in kernel.params][:4] == [-math.inf, None, None, 1.0]


def test_import_source_goes_to_the_kernel():
    assert build("T.import_source('static int f(int x) { return x; }')").kernel.imports == ("static int f(int x) { return x; }",)


# ---------------------------------------------------------------------------------------------- outside kernels
def test_python_numbers_stay_python_numbers():
    assert [T.ceildiv(7, 2), T.ceildiv(-7, 2), T.floordiv(-7, 2), T.floormod(-7, 3), T.truncdiv(-7, 2), T.truncmod(-7, 3)] == [4, -3, -4, 2, -3, -1]
    assert (T.max(1, 2.5), T.min(3, 2), T.clamp(9, 0, 5), T.align_up(10, 8), T.shift_left(1, 4), T.abs(-3)) == (2.5, 2, 5, 16, 16, 3)
    assert isinstance(T.ceildiv(np.int64(7), 2), int)
    assert T.index_to_coordinates(11, (2, 3, 4)) == [0, 2, 3]
    assert T.if_then_else(False, 1, 2) == 2


@pytest.mark.parametrize("name", "exp exp2 log log2 log10 log1p sqrt sin cos tan sinh cosh tanh floor ceil trunc expm1".split())
def test_functions_of_python_numbers_agree_with_numpy(name):
    assert getattr(T, name)(0.7) == getattr(np, name)(0.7)


def test_rounding_functions_differ_on_halves():
    assert [T.round(x) for x in (0.5, 1.5, -2.5)] == [1, 2, -3]
    assert [T.nearbyint(x) for x in (0.5, 1.5, -2.5)] == [0, 2, -2]


def test_symbolic_values_work_outside_kernels():
    m = Value(Var("m"))
    assert print_expr(T.ceildiv(m, 64).expr) == "(m + 63) // 64"
    assert print_expr(T.ceildiv(m, Value(Var("n"))).expr) == "-(-m // n)"


def test_constants_are_python_values_when_asked():
    assert float(-T.infinity("float32")) == -math.inf
    assert int(T.int32(3) + 4) == 7 and bool(T.int32(3) > 2) and [10, 20][T.int32(1)] == 20
    assert T.float16(0.1).expr == Const(0.0999755859375, DType("float16"))
    assert T.max_value("float8_e4m3fn").expr.value == 448


def test_numpy_scalars_leave_the_operator_to_values():
    m = Value(Var("m", DType("float16")))
    for other in (np.float32(2), np.float64(2), np.int64(2)):
        assert print_expr((other * m).expr) == "2.0f16 * m"


def test_values_compare_unequal_to_what_is_no_number():
    assert not (Value(Var("m")) == None) and Value(Var("m")) != "m"  # noqa: E711


def test_a_statement_word_outside_a_kernel():
    with pytest.raises(JITNoBuilderError) as caught:
        T.copy(1, 2)
    assert str(caught.value) == "no kernel: T.copy is used outside a kernel\n  hint: call it inside a @T.prim_func, or in a @jit function"


# ---------------------------------------------------------------------------------------------- errors
ERRORS = {
    "T.reinterpret(V[0], 'int16')": (
        "type error: T.reinterpret from float32 (32 bits) to int16 (16 bits)",
        "the widths must agree: convert with T.cast, or use a 32-bit dtype",
    ),
    "T.cast(V[0], V[1])": (
        "type error: T.cast needs a value and a dtype, got <ElementValue float32 V[0]> and <ElementValue float32 V[1]>",
        'T.cast(x, "float32")',
    ),
    "T.cast(V[0], 'float16', 'rz')": (
        "not supported: T.cast with rounding 'rz'",
        "casts round to nearest even; T.floor, T.ceil and T.trunc round otherwise",
    ),
    "T.infinity('int32')": ("type error: int32 has no infinity", 'T.max_value("int32") is its largest value'),
    "T.ceildiv(V[0], 2)": ("type error: T.ceildiv needs integers, got float32 and float32", "T.ceil(a / b) rounds a float up"),
    "T.ieee_add(V[0], V[1], 'rz')": ("not supported: T.ieee_add with rounding 'rz'", 'only rounding to nearest even is available: "rn"'),
    "T.atomic_add(C[0:64, 0], 1)": (
        "value error: T.atomic_add: C (64, 1) is a tile, the value is one number",
        "give a tile of the same extents, or one element such as C[i, j]",
    ),
    "T.atomic_add(C[0, 0], F, return_prev=True)": (
        "not supported: T.atomic_add of a tile cannot return the previous values",
        "update the elements one by one inside T.Parallel",
    ),
    "T.atomic_or(C[0, 0], 1)": ("type error: T.atomic_or needs integers, C is float32", "view the buffer as an integer dtype: T.view"),
    "T.atomic_add(C[0, 0], 1, 'strong')": (
        "value error: T.atomic_add knows no memory order 'strong'",
        "one of relaxed, consume, acquire, release, acq_rel, seq_cst",
    ),
    "T.atomic_load(C)": ("value error: T.atomic_load needs one element, got C (256, 256)", "index it: buf[i]"),
    "T.atomic_addx2(C[0, 0], V[0], return_prev=True)": (
        "not supported: T.atomic_addx2 cannot return the previous values",
        "use T.atomic_add on each element with return_prev=True",
    ),
    "T.get_thread_binding(3)": ("value error: T.get_thread_binding(3): threads have the dims 0 (x), 1 (y) and 2 (z)", ""),
    "T.shfl_sync(V[0], 0, width=12)": ("value error: T.shfl_sync: the width must be a power of two up to 32, got 12", ""),
    "T.warp_reduce_bitor(V[0])": ("type error: T.warp_reduce_bitor needs an integer, got float32", ""),
    "T.tvm_thread_allreduce(1, V[0], True, L[0])": (
        "value error: T.tvm_thread_allreduce has no reducer",
        'put it in `with T.attr(T.comm_reducer(lambda x, y: x + y, [0]), "reduce_scope", 0):`',
    ),
    "T.tvm_thread_allreduce(1, V[0], True, L[0], k)": (
        "value error: T.tvm_thread_allreduce has no reducer",
        'put it in `with T.attr(T.comm_reducer(lambda x, y: x + y, [0]), "reduce_scope", 0):`',
    ),
    "T.comm_reducer(lambda a, b: a, [0, 1])": ("value error: T.comm_reducer over 2 values at once", "reduce them one after another"),
    "T.get_warp_idx(0)": ("value error: T.get_warp_idx needs a constant size of at least 1, got 0", ""),
    "T.device_assert(V, 'all')": (
        "type error: V(64,) is a tile, not a number",
        "work on its elements inside `for i, j in T.Parallel(...)`, or use a tile operation",
    ),
    "T.import_source(3)": ("type error: T.import_source needs C source as a string, got int", ""),
    "T.print(V[0:3])": ("type error: T.print prints a value or a whole buffer, not a slice", "copy the slice to a tile and print that"),
    "T.call_extern('f', 3)": (
        "type error: T.call_extern needs the dtype, then the function's name, got 3",
        'T.call_extern("float32", "f", x)',
    ),
    "T.access_ptr(V, 'x')": ("value error: T.access_ptr knows no access 'x'", 'one of "r", "w", "rw"'),
    "T.annotate_safe_value({S: 1})": (
        "value error: T.annotate_safe_value: S is in shared memory",
        "only reads of global buffers are guarded; annotate the argument",
    ),
    "T.annotate_safe_value({X: V[0]})": (
        "type error: the safe value of X is known only when the kernel runs",
        "use a constant, such as -T.infinity(dtype)",
    ),
    "T.annotate_layout(S)": ("type error: T.annotate_layout needs a dict from buffers, got BufferValue", "T.annotate_layout({buffer: ...})"),
    "T.create_tma_descriptor(1)": (
        "not supported: T.create_tma_descriptor needs a GPU of generation sm_90",
        "use T.copy, which waits for itself and needs no barrier",
    ),
    "T.tcgen05_gemm(S, R, F)": (
        "not supported: T.tcgen05_gemm needs a GPU of generation sm_100",
        "use T.gemm with an accumulator from T.alloc_fragment",
    ),
}


@pytest.mark.parametrize("statement", ERRORS)
def test_errors(statement):
    message, hint = ERRORS[statement]
    expected = f"kernel.py:18:13: {message}\n      {statement}\n      {'^' * len(statement)}" + (f"\n  hint: {hint}" if hint else "")
    assert refusal(statement) == expected


def test_an_axis_of_an_allreduce_must_be_a_thread_index():
    text = refusal("with T.attr(T.comm_reducer(lambda a, b: a + b, [0]), '', 0):\n    T.tvm_thread_allreduce(1, V[0], True, L[0], k)")
    assert text == (
        "kernel.py:19:17: type error: T.tvm_thread_allreduce: an axis must be a thread index, got <Value int64 k>\n"
        "      T.tvm_thread_allreduce(1, V[0], True, L[0], k)\n      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  hint: use T.get_thread_binding(dim)"
    )


def test_words_that_need_a_launch_or_a_loop():
    def outside(A: T.Tensor((4,), "float32")):
        T.copy(A, A)

    def no_loop(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.loop_break()

    with pytest.raises(TileError) as caught:
        T.prim_func(outside)
    assert "language error: T.copy is used outside a launch" in str(caught.value) and "T.copy(A, A)" in str(caught.value)
    with pytest.raises(TileError) as caught:
        T.prim_func(no_loop)
    assert "value error: T.loop_break stands outside a loop" in str(caught.value)


def test_an_unknown_word_suggests_the_nearest():
    with pytest.raises(TileNameError) as caught:
        T.redcue_max
    assert str(caught.value).startswith("name error: `T.redcue_max` is not a word of the language\n  hint: did you mean T.reduce_max")


# ---------------------------------------------------------------------------------------------- the table of words
def test_every_word_has_a_meaning_and_a_docstring():
    for name, word in WORDS.items():
        meaning = dict(zip(word.__code__.co_freevars, (c.cell_contents for c in word.__closure__), strict=True))["meaning"]
        assert meaning is not None, name
        assert word.__doc__ and word.__doc__.rstrip()[-1] in ".`", name


@pytest.mark.parametrize("name", sorted(STUBS))
def test_words_of_other_targets_say_what_to_use(name):
    with pytest.raises(UnsupportedError) as caught:
        getattr(T, name)()
    assert caught.value.message.startswith(f"T.{name} needs a GPU of generation sm_") and caught.value.hint


def test_lane_packs_are_names_only():
    assert (T.float16x2.lanes, T.float16x2.bits, T.float16x2 == "float16x2") == (2, 32, True)
    with pytest.raises(UnsupportedError):
        T.float16x2(0)


def test_a_meaning_must_agree_with_its_stub():
    from tileworkbench.language._dispatch import impl

    stub = _function("example_of_a_word", "A word that no kernel knows.")
    del WORDS["example_of_a_word"]
    with pytest.raises(TypeError):
        impl(stub)(lambda y: y)
