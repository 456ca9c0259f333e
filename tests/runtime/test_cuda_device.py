"""Launching on a real GPU: arrays and streams of CuPy and PyTorch, graphs, clusters, tensor maps, faults. Left out where there is no GPU."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
from runtime.cuda_fakes import ADD_TEXT, scale_add_program, scale_add_text

import tileworkbench
from tileworkbench.base.errors import ArgumentError, DeviceAssertError
from tileworkbench.base.machine import find_machine
from tileworkbench.codegen.cuda_source import SMS, CudaKernel, CudaSource, Number, Pointer, TensorMap
from tileworkbench.ir.expr import Binary, Var, const
from tileworkbench.runtime import libcuda, targets
from tileworkbench.runtime.cubin import read_cubin
from tileworkbench.runtime.cuda_launch import Program
from tileworkbench.runtime.cuda_plan import plan_of
from tileworkbench.runtime.libcuda import DriverError
from tileworkbench.runtime.nvrtc import compile_text
from tileworkbench.runtime.target_cuda import CudaTarget

pytestmark = [pytest.mark.cuda, pytest.mark.skipif(libcuda.find_driver() is None, reason=f"no GPU: {libcuda.why_no_driver()}")]
ONE = const(1)


@pytest.fixture(autouse=True)
def target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Target "cuda" with text written by hand."""
    monkeypatch.setitem(targets._added, "cuda", CudaTarget(scale_add_text))


@pytest.fixture
def cupy() -> Any:
    return pytest.importorskip("cupy")


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def load(text: str, *kernels: CudaKernel, names: tuple[str, ...], dims: tuple[str, ...] = ()) -> Program:
    driver = libcuda.require_driver()
    device = driver.device(0)
    made = compile_text(text, device.arch)
    plan = plan_of(CudaSource(text, kernels), dims, (), device.arch)
    return Program(driver, device, device.arch, made.cubin, plan, {k.name: k for k in read_cubin(made.cubin)}, names, len(dims), 0)


def needs_hopper() -> None:
    driver = libcuda.find_driver()
    if driver is None or driver.device(0).capability < (9, 0):
        pytest.skip("needs compute capability 9.0")


# ------------------------------------------------------------------------------------------- arrays and streams
def test_cupy_arrays_in_place_and_as_outputs(cupy: Any) -> None:
    kernel = tileworkbench.compile(scale_add_program(), target="cuda")
    returning = tileworkbench.compile(scale_add_program(), target="cuda", out_idx=2)
    for n in (1, 127, 128, 129, 100_003):
        a, b, c = cupy.random.random(n, dtype=cupy.float32), cupy.random.random(n, dtype=cupy.float32), cupy.full(n, cupy.nan, cupy.float32)
        wanted = cupy.asnumpy(a) * np.float32(1.5) + cupy.asnumpy(b)
        for _ in range(3):
            c.fill(cupy.nan)
            kernel(a, b, c, 1.5)
            np.testing.assert_allclose(cupy.asnumpy(c), wanted, rtol=1e-6)
            made = returning(a, b, 1.5)
            assert type(made) is cupy.ndarray
            np.testing.assert_allclose(cupy.asnumpy(made), wanted, rtol=1e-6)


def test_pytorch_tensors(torch: Any) -> None:
    kernel = tileworkbench.compile(scale_add_program(), target="cuda", out_idx=2)
    a, b = torch.randn(1000, device="cuda"), torch.randn(1000, device="cuda")
    for _ in range(3):
        c = kernel(a, b, 0.25)
        assert c.is_cuda and torch.allclose(c, a * 0.25 + b)
    with pytest.raises(ArgumentError, match="a tensor on cpu"):
        kernel(a, b.cpu(), 0.25)


def test_arrays_on_a_second_gpu(cupy: Any, torch: Any) -> None:
    """The kernel runs where its arrays lie, whatever device the thread is on, and leaves the thread there."""
    if libcuda.require_driver().count < 2:
        pytest.skip("needs two GPUs")
    kernel = tileworkbench.compile(scale_add_program(), target="cuda", out_idx=2)
    for _ in range(2):
        for ordinal in (0, 1):
            with cupy.cuda.Device(ordinal):
                a, b = cupy.arange(1000, dtype=cupy.float32), cupy.ones(1000, cupy.float32)
                cupy.cuda.Device(ordinal).synchronize()
            t, u = torch.arange(1000, device=f"cuda:{ordinal}", dtype=torch.float32), torch.ones(1000, device=f"cuda:{ordinal}")
            torch.cuda.synchronize(ordinal)
            for _ in range(3):
                c = kernel(a, b, 2.0)
                v = kernel(t, u, 3.0)
                assert cupy.cuda.Device().id == 0 and (c.device.id, v.device.index) == (ordinal, ordinal)
                np.testing.assert_array_equal(cupy.asnumpy(c), np.arange(1000) * 2 + 1)
                assert torch.equal(v, t * 3 + 1)
    with cupy.cuda.Device(0):
        other = cupy.ones(1000, cupy.float32)
    with pytest.raises(ArgumentError, match="lie on GPUs 0, 1"):
        kernel(a, other, 2.0)


JAX = """
import os
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
import jax, tileworkbench
from runtime.cuda_fakes import scale_add_program, scale_add_text
from tileworkbench.runtime import targets
from tileworkbench.runtime.target_cuda import CudaTarget
targets.register(CudaTarget(scale_add_text))
a, b = jax.numpy.arange(500, dtype="float32"), jax.numpy.ones(500, dtype="float32")
a.block_until_ready(), b.block_until_ready()
import cupy
print(cupy.asnumpy(tileworkbench.compile(scale_add_program(), target="cuda", out_idx=2)(a, b, 2.0)).tolist() == [2.0 * i + 1 for i in range(500)])
try:
    tileworkbench.compile(scale_add_program(), target="cuda")(a, a, b, 2.0)
except Exception as error:
    print(type(error).__name__, error)
"""


def test_jax_arrays(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its arrays cannot be written, so they serve as inputs. In a process of its own, which brings JAX up before the others."""
    if importlib.util.find_spec("jax") is None:
        pytest.skip("needs JAX")
    monkeypatch.setenv("PYTHONPATH", ":".join(p for p in sys.path if p))
    made = subprocess.run([sys.executable, "-c", JAX], capture_output=True, text=True, timeout=200)
    said = made.stdout.splitlines()
    assert said[:1] == ["True"], made.stderr[-2000:]
    assert said[1].startswith("ArgumentError") and "argument c" in said[1], said


def test_reports_read_copies(cupy: Any, torch: Any) -> None:
    kernel = tileworkbench.compile(scale_add_program(), target="cuda", out_idx=2)
    for a in (cupy.ones(1 << 20, cupy.float32), torch.ones(1 << 20, device="cuda")):
        made = kernel.report(find_machine("h200"), args=(a, a, 2.0))
        assert made.machine.name == "NVIDIA H200"
        kernel.get_profiler().assert_allclose(lambda x, y, factor: x * factor + y, input_tensors=[a, a, 2.0])
    call = kernel.bind(a, a, 2.0)
    assert float(call.readable()["a"].sum()) == 1 << 20


def test_a_cooperative_grid(cupy: Any) -> None:
    """Every block waits for all the others, which only ends if all of them run."""
    text = """extern "C" __global__ void meet(unsigned *count, unsigned *out) {
  if (threadIdx.x == 0) {
    atomicAdd(count, 1);
    while (atomicAdd(count, 0) < gridDim.x) {}
    out[blockIdx.x] = 1;
  }
}"""
    launch = CudaKernel("meet", (Var("n"), ONE, ONE), (1024, 1, 1), (Pointer("count"), Pointer("out")), is_cooperative=True)
    program = load(text, launch, names=("count", "out"), dims=("n",))
    blocks = 2 * program.device.sms
    count, out = cupy.zeros(1, cupy.uint32), cupy.zeros(blocks, cupy.uint32)
    program.run(0, count.data.ptr, out.data.ptr, blocks)
    assert int(out.sum()) == blocks
    with pytest.raises(DriverError, match=f"all {4 * blocks} blocks of a cooperative grid have to run at once"):
        program.run(0, count.data.ptr, out.data.ptr, 4 * blocks)


def test_the_devices_clock(torch: Any) -> None:
    """A copy of 256 MiB there and back takes between what 6 TB/s and 0.1 TB/s would need; the launch alone, a thousandth of that."""
    kernel = tileworkbench.compile(scale_add_program(), target="cuda")
    a, b, c = (torch.ones(64 << 20, device="cuda") for _ in range(3))
    timing = kernel.profile(a, b, c, 2.0, runs=10)
    assert 3 * a.nbytes / 6e12 < timing.median_ms / 1e3 < 3 * a.nbytes / 1e11
    print(f"{3 * a.nbytes / timing.median_ms / 1e9:.2f} TB/s")


def test_an_array_that_only_speaks_dlpack(cupy: Any) -> None:
    class Other:
        def __init__(self, array: Any) -> None:
            self.array = array

        def __dlpack__(self, **how: Any) -> Any:
            return self.array.__dlpack__(**how)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    kernel = tileworkbench.compile(scale_add_program(), target="cuda", out_idx=2)
    a, b = cupy.arange(500, dtype=cupy.float32), cupy.ones(500, cupy.float32)
    np.testing.assert_array_equal(cupy.asnumpy(kernel(Other(a), Other(b), 2.0)), np.arange(500) * 2 + 1)


def test_launches_go_on_the_current_stream(cupy: Any, torch: Any) -> None:
    """Behind work that takes a while on that stream: without the stream the kernel would read what is not there yet."""
    kernel = tileworkbench.compile(scale_add_program(), target="cuda")
    n = 1 << 20
    big = cupy.random.random((4096, 4096), dtype=cupy.float32)
    zero, out = cupy.zeros(n, cupy.float32), cupy.zeros(n, cupy.float32)
    cupy.cuda.Device().synchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    for count in range(3):
        source = cupy.zeros(n, cupy.float32)
        cupy.cuda.Device().synchronize()
        with stream:
            for _ in range(10):
                big @ big
            source.fill(count + 7)
            kernel(source, zero, out, 1.0)
        stream.synchronize()
        assert float(out.min()) == float(out.max()) == count + 7
    t_big, t_zero, t_out = torch.rand(4096, 4096, device="cuda"), torch.zeros(n, device="cuda"), torch.zeros(n, device="cuda")
    side = torch.cuda.Stream()
    for count in range(3):
        t_source = torch.zeros(n, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            for _ in range(10):
                t_big @ t_big
            t_source.fill_(count + 5)
            kernel(t_source, t_zero, t_out, 1.0)
        side.synchronize()
        assert float(t_out.min()) == float(t_out.max()) == count + 5


def test_inside_cuda_graphs(cupy: Any, torch: Any) -> None:
    kernel = tileworkbench.compile(scale_add_program(status=True), target="cuda", out_idx=2)
    a, b = torch.randn(4096, device="cuda"), torch.randn(4096, device="cuda")
    for _ in range(3):
        kernel(a, b, 2.0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = kernel(a, b, 2.0)
    a.fill_(3.0)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.allclose(c, a * 2.0 + b)
    in_place = tileworkbench.compile(scale_add_program(), target="cuda")
    x, y, z = (cupy.ones(512, cupy.float32) for _ in range(3))
    in_place(x, y, z, 2.0)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        in_place(x, y, z, 3.0)
        in_place(z, y, z, 1.0)
        captured = stream.end_capture()
    assert float(z[0]) == 3.0, "nothing has run yet"
    captured.launch(stream)
    stream.synchronize()
    assert float(z.min()) == float(z.max()) == 5.0


def test_a_thread_that_never_used_the_gpu(cupy: Any) -> None:
    kernel = tileworkbench.compile(scale_add_program(), target="cuda")
    a, b, c = (cupy.ones(256, cupy.float32) for _ in range(3))
    for _ in range(3):
        kernel(a, b, c, 1.0)
    program = kernel.executable.program(0)
    faults: list[Exception] = []

    def work() -> None:
        try:
            program.run(0, a.data.ptr, b.data.ptr, c.data.ptr, 256, 9.0)
        except Exception as error:
            faults.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert faults == [] and float(c.sum()) == 2560.0


def test_bfloat16_scalars_and_arrays(torch: Any) -> None:
    text = """extern "C" __global__ void copy(const unsigned short *a, unsigned short *b, unsigned short s) {
  b[threadIdx.x] = threadIdx.x ? a[threadIdx.x] : s;
}"""
    params = (Pointer("a"), Pointer("b"), Number(Var("s"), "bfloat16"))
    program = load(text, CudaKernel("copy", (ONE, ONE, ONE), (32, 1, 1), params), names=("a", "b"), dims=("s",))
    a, b = torch.randn(32, device="cuda").bfloat16(), torch.zeros(32, device="cuda", dtype=torch.bfloat16)
    program.run(0, a.data_ptr(), b.data_ptr(), 3)
    torch.cuda.synchronize()
    assert float(b[0]) == 3.0 and torch.equal(a[1:], b[1:])


# ------------------------------------------------------------------------------------------- launches of all kinds
def test_much_dynamic_shared_memory_and_a_grid_that_stays(cupy: Any) -> None:
    text = """extern "C" __global__ void __launch_bounds__(256) turn(const int *a, int *b, int blocks) {
  extern __shared__ int tile[];
  for (int block = blockIdx.x; block < blocks; block += gridDim.x) {
    for (int i = threadIdx.x; i < 8192; i += 256) tile[i] = a[block * 8192 + i];
    __syncthreads();
    for (int i = threadIdx.x; i < 8192; i += 256) b[block * 8192 + i] = tile[8191 - i];
    __syncthreads();
  }
}"""
    grid = (Binary("min", Var("n"), Var(SMS)), ONE, ONE)
    params = (Pointer("a"), Pointer("b"), Number(Var("n"), "int32"))
    limit = libcuda.require_driver().device(0).shared_per_block
    program = load(text, CudaKernel("turn", grid, (256, 1, 1), params, shared_bytes=limit), names=("a", "b"), dims=("n",))
    a = cupy.arange(300 * 8192, dtype=cupy.int32)
    b = cupy.zeros_like(a)
    program.run(0, a.data.ptr, b.data.ptr, 300)
    assert (cupy.asnumpy(b).reshape(300, 8192) == cupy.asnumpy(a).reshape(300, 8192)[:, ::-1]).all()


def test_clusters_and_programmatic_launch(cupy: Any) -> None:
    needs_hopper()
    text = """extern "C" __global__ void ranks(int *out, int add) {
  int rank, size;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  asm volatile("griddepcontrol.wait;" ::: "memory");
  if (threadIdx.x == 0) out[blockIdx.x] = out[blockIdx.x] * 100 + size * 10 + rank;
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}"""
    launch = CudaKernel(
        "ranks", (const(8), ONE, ONE), (32, 1, 1), (Pointer("out"), Number(const(0), "int32")), cluster=(4, 1, 1), is_programmatic=True
    )
    program = load(text, launch, launch, names=("out",))
    out = cupy.zeros(8, cupy.int32)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    program.run(stream.ptr, out.data.ptr)
    stream.synchronize()
    assert cupy.asnumpy(out).tolist() == [(40 + rank) * 101 for rank in (0, 1, 2, 3)] * 2


TMA = """typedef unsigned long long u64;
struct __align__(64) Map { u64 words[16]; };
extern "C" __global__ void __launch_bounds__(128) tile(const __grid_constant__ Map map, short *out, int x, int y) {
  extern __shared__ __align__(1024) short box[];
  __shared__ u64 bar;
  unsigned at = (unsigned)__cvta_generic_to_shared(box), b = (unsigned)__cvta_generic_to_shared(&bar), done = 0;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(b));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(b), "r"(64 * 32 * 2) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                 :: "r"(at), "l"((u64)&map), "r"(b), "r"(x), "r"(y) : "memory");
  }
  __syncthreads();
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(b) : "memory");
  for (int i = threadIdx.x; i < 64 * 32; i += 128) out[i] = box[i];
}"""


@pytest.mark.parametrize("swizzle", [0, 128])
def test_a_tensor_map_finds_its_box(cupy: Any, swizzle: int) -> None:
    """A box at (64, 16) of a 100 x 200 tensor, that hangs over both edges: zero outside, and 16-byte columns exchanged by the swizzle."""
    needs_hopper()
    rows, cols = 100, 200
    spec = TensorMap("a", "int16", (const(cols), const(rows)), (const(cols * 2),), (64, 32), swizzle)
    for x, y in ((64, 16), (192, 90), (-8, -3)):
        params = (spec, Pointer("out"), Number(const(x), "int32"), Number(const(y), "int32"))
        program = load(TMA, CudaKernel("tile", (ONE, ONE, ONE), (128, 1, 1), params, shared_bytes=4096), names=("a", "out"))
        a = cupy.arange(1, rows * cols + 1, dtype=cupy.int16).reshape(rows, cols)
        out = cupy.zeros((32, 64), cupy.int16)
        program.run(0, a.data.ptr, out.data.ptr)
        around = np.zeros((rows + 200, cols + 200), np.int16)
        around[100 : 100 + rows, 100 : 100 + cols] = cupy.asnumpy(a)
        wanted = around[100 + y : 132 + y, 100 + x : 164 + x].reshape(32, 8, 8)
        if swizzle:
            wanted = np.stack([row[np.arange(8) ^ (i % 8)] for i, row in enumerate(wanted)])
        np.testing.assert_array_equal(cupy.asnumpy(out), wanted.reshape(32, 64))


# ------------------------------------------------------------------------------------------- faults
def test_assertions_are_raised(cupy: Any) -> None:
    kernel = tileworkbench.compile(scale_add_program(status=True), target="cuda")
    a, b, c = (cupy.ones(256, cupy.float32) for _ in range(3))
    for _ in range(3):
        kernel(a, b, c, 1.0)
        with pytest.raises(DeviceAssertError, match="factor is positive"):
            kernel(a, b, c, -1.0)


def test_a_grid_that_is_too_large_is_explained(cupy: Any) -> None:
    text = 'extern "C" __global__ void nothing() {}'
    program = load(text, CudaKernel("nothing", (ONE, Var("n"), ONE), (32, 1, 1), ()), names=(), dims=("n",))
    with pytest.raises(DriverError, match="the grid has 70000 blocks in y, at most 65535 are possible"):
        program.run(0, 70_000)
    program.run(0, 10)
    cupy.cuda.Device().synchronize()


FAULT = """
import cupy, tileworkbench
from runtime.cuda_fakes import ADD_TEXT, scale_add_program, scale_add_text
from tileworkbench.runtime import targets
from tileworkbench.runtime.target_cuda import CudaTarget
targets.register(CudaTarget(scale_add_text))
kernel = tileworkbench.compile(scale_add_program(), target="cuda")
a = cupy.ones(256, cupy.float32)
kernel(a, a, a, 1.0)
try:
    kernel.executable.program(0).run(0, 8, 8, 8, 256, 1.0)
    cupy.cuda.Device().synchronize()
except Exception as error:
    print(error)
try:
    kernel(a, a, a, 1.0)
except Exception as error:
    print(error)
"""


@pytest.mark.parametrize("sync", ["0", "1"])
def test_a_kernel_that_goes_wrong(cupy: Any, sync: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own, since nothing runs in it afterwards."""
    monkeypatch.setenv("TILEWORKBENCH_CUDA_SYNC", sync)
    monkeypatch.setenv("PYTHONPATH", ":".join(p for p in sys.path if p))
    said = subprocess.run([sys.executable, "-c", FAULT], capture_output=True, text=True, timeout=120).stdout
    if sync == "1":
        assert "kernel scale_add (grid (2, 1, 1), block (128, 1, 1), 0 bytes of dynamic shared memory) went wrong" in said
    else:
        assert "an earlier kernel went wrong" in said and "TILEWORKBENCH_CUDA_SYNC=1" in said


def test_a_call_costs_little(cupy: Any, torch: Any) -> None:
    """Three arrays and a scalar: what comes on top of the driver's own launch, checks included; and about what CuPy takes without any."""
    kernel = tileworkbench.compile(scale_add_program(), target="cuda")
    raw = cupy.RawKernel(ADD_TEXT, "scale_add")
    mine, theirs = [cupy.ones(256, cupy.float32) for _ in range(3)], [torch.ones(256, device="cuda") for _ in range(3)]
    for given in (mine, theirs):
        for _ in range(3):
            kernel(*given, 1.0)
    one = kernel.executable.program(0).launches[0]
    frame = one.frames[-1]
    bare = best_us(cupy, lambda: one.driver.launch(frame[1], one.function, frame[2], None))
    costs = {name: best_us(cupy, lambda: kernel(*given, 1.0)) for name, given in (("cupy", mine), ("torch", theirs))}
    rival = best_us(cupy, lambda: raw((2,), (128,), (*mine, np.float32(1), np.int64(256))))
    print(f"driver {bare:.2f} us, calls {costs}, CuPy's RawKernel {rival:.2f} us")
    assert costs["cupy"] < 1.3 * rival
    assert max(costs.values()) - bare < 6


def best_us(cupy: Any, call: Any) -> float:
    """Microseconds of a call on the host, without waiting for the GPU; the best of many."""
    best = float("inf")
    for _ in range(30):
        cupy.cuda.Device().synchronize()
        begin = time.perf_counter()
        for _ in range(200):
            call()
        best = min(best, (time.perf_counter() - begin) / 200)
    return best * 1e6
