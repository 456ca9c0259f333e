"""Launching, against a driver that remembers what it was asked: packing, tensor maps, limits and errors."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from runtime.cuda_fakes import FakeDriver

from tileworkbench.base.errors import ArgumentError, CapacityError, InternalError, UnsupportedError
from tileworkbench.codegen.cuda_source import SMS, CudaKernel, CudaSource, Number, Pointer, TensorMap
from tileworkbench.ir.expr import Binary, Var, const
from tileworkbench.runtime import libcuda
from tileworkbench.runtime.cubin import KernelFacts
from tileworkbench.runtime.cuda_launch import Program
from tileworkbench.runtime.cuda_plan import Plan, plan_of
from tileworkbench.runtime.libcuda import DriverError

ELF = b"\x7fELF"


ELF = b"\x7fELF"
ONE = const(1)


def program_of(*kernels: CudaKernel, sizes: dict[str, tuple[int, ...]] | None = None, dims: tuple[str, ...] = ("n",), scalars: tuple[str, ...] = (),
               names: tuple[str, ...] = ("A",), threads: int = 0, registers: int = 32, static: int = 0, status: str = "") -> Program:  # fmt: skip
    """A program of kernels written by hand, loaded from a cubin that nobody looks into."""
    plan = Plan.from_data(plan_of(CudaSource("", kernels, status), dims, scalars, "sm_90a").data())
    made = {k.name: sizes[k.name] if sizes else tuple(p.bytes for p in k.params) for k in plan.kernels}
    facts = {name: KernelFacts(name, registers, 0, static, threads, tuple((0, s) for s in size), 0) for name, size in made.items()}
    opened = libcuda.require_driver()
    return Program(opened, opened.device(0), "sm_90a", ELF, plan, facts, names, len(dims), len(scalars))


def kernel_of(*params: Any, grid: Any = (ONE, ONE, ONE), block: tuple[int, int, int] = (128, 1, 1), **more: Any) -> CudaKernel:
    return CudaKernel("k", grid, block, params, **more)


N, S = Var("n"), Var("s")


# ------------------------------------------------------------------------------------------- packing
def test_every_argument_arrives(driver: FakeDriver) -> None:
    """Each dtype of a scalar, among pointers and a dim, as a kernel with these C types would read it."""
    dtypes = {"int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q", "float32": "f",
              "float64": "d", "float16": "e", "bool": "?"}  # fmt: skip
    params = [Pointer("A"), *(Number(S, d) for d in dtypes), Number(N, "int32"), Pointer("B")]
    program = program_of(kernel_of(*params), scalars=("s",), names=("A", "B"))
    driver.expect(8, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 2, 1, 4, 8)
    program.run(9, 0x1234567890, 0xABC0, 77, 3)
    got = driver.arguments(f"Q{''.join(dtypes.values())}iQ")
    assert got == (0x1234567890, 3, 3, 3, 3, 3, 3, 3, 3, 3.0, 3.0, 3.0, True, 77, 0xABC0)
    assert (driver.get("stream"), driver.shape(), driver.get("count")) == (9, (1, 1, 1, 128, 1, 1), 0)


@pytest.mark.parametrize(
    ("value", "bits"), [(1.0, 0x3F80), (1.00390625, 0x3F80), (1.01171875, 0x3F82), (-2.5, 0xC020), (1e39, 0x7F80), (float("nan"), 0x7FC0)]
)
def test_a_bfloat16_goes_as_its_bits(driver: FakeDriver, value: float, bits: int) -> None:
    """Rounded to nearest; of 1 + 1/256 and 1 + 3/256, halfway between two, the even one."""
    driver.expect(2)
    program_of(kernel_of(Number(S, "bfloat16")), scalars=("s",)).run(0, 0, 0, value)
    assert driver.arguments("H") == (bits,)


def test_a_float_too_large_becomes_infinite(driver: FakeDriver) -> None:
    program = program_of(kernel_of(Number(S, "float32"), Number(S, "float16"), Number(N, "int32")), scalars=("s",))
    driver.expect(4, 2, 4)
    program.run(0, 0, 5, 1e39)
    assert driver.arguments("fei") == (float("inf"), float("inf"), 5)
    program.run(0, 0, 5, -7e4)
    assert driver.arguments("fei") == (-7e4, -float("inf"), 5)


def test_grids_follow_the_dims_and_the_device(driver: FakeDriver) -> None:
    rows = Binary("floordiv", Binary("add", N, const(127)), const(128))
    program = program_of(kernel_of(grid=(rows, Binary("min", N, Var(SMS)), ONE), block=(32, 4, 1)))
    program.run(0, 0, 1000)
    assert driver.shape() == (8, 132, 1, 32, 4, 1)
    program.run(0, 0, 1)
    assert driver.shape() == (1, 1, 1, 32, 4, 1)


def test_an_empty_grid_launches_nothing(driver: FakeDriver) -> None:
    program = program_of(kernel_of(grid=(N, ONE, ONE)), kernel_of(grid=(ONE, ONE, ONE)))
    program.run(0, 0, 0)
    assert driver.get("launches") == 1, "only the kernel whose grid is not empty"


def test_clusters_and_programmatic_launch_are_attributes(driver: FakeDriver) -> None:
    program_of(kernel_of(grid=(const(6), ONE, ONE), cluster=(2, 1, 1), is_programmatic=True, shared_bytes=200_000)).run(0, 0, 0)
    assert driver.get("count") == 2
    assert driver.attribute(0) == (4, 2, 1, 1), "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION"
    assert driver.attribute(1)[:2] == (6, 1), "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION"
    assert driver.get("shared") == 200_000 == driver.get("dynamic"), "asked for at the launch, and allowed before it"


def test_threads_do_not_share_a_frame(driver: FakeDriver) -> None:
    """Many threads launch at once; no frame is ever in two hands."""
    program = program_of(kernel_of(Number(N, "int64")))
    inside: list[int] = []
    faults: list[str] = []

    def launch(config: int, *rest: Any) -> int:
        if config in inside:
            faults.append("shared")
        inside.append(config)
        time.sleep(0.001)
        inside.remove(config)
        return 0

    program.run.__globals__["launch"] = launch
    workers = [threading.Thread(target=lambda: [program.run(0, 0, i) for i in range(10)]) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert faults == [] and 1 <= len(program.launches[0].frames) <= 4


# ------------------------------------------------------------------------------------------- tensor maps
MAP = TensorMap("A", "bfloat16", (Var("k"), N), (Binary("mul", Var("k"), const(2)),), (64, 128), swizzle=128)


def test_a_tensor_map_is_made_once_for_an_address(driver: FakeDriver) -> None:
    program = program_of(kernel_of(Number(N, "int32"), MAP, Pointer("A")), dims=("n", "k"))
    driver.expect(4, 128, 8)
    for _ in range(3):
        program.run(0, 4096, 256, 512)
    assert driver.get("encoded") == 1
    words = driver.arguments("i16QQ")
    assert words[0] == 256 and words[-1] == 4096
    address, rank, code, swizzle, promotion, fill = words[1:7]
    assert (address, rank, code, swizzle, promotion, fill) == (4096, 2, 9, 3, 3, 0)
    assert (words[7], words[8], words[10], words[13], words[14]) == (512, 256, 1024, 64, 128), "dims, stride in bytes, box"
    program.run(0, 8192, 256, 512)
    program.run(0, 4096, 128, 512)
    assert driver.get("encoded") == 3


def test_an_empty_tensor_is_one_zero_to_the_engine(driver: FakeDriver) -> None:
    """It knows no empty ones; what would lie outside reads as zero, and so does this."""
    program = program_of(kernel_of(MAP), dims=("n", "k"))
    driver.expect(128)
    program.run(0, 4096, 0, 512)
    words = driver.arguments("16Q")
    assert words[0] not in (0, 4096) and words[6:8] == (1, 1), "memory of its own, one element"
    program.run(0, 4096, 0, 512)
    assert driver.get("encoded") == 1 and driver.get("launches") == 2


@pytest.mark.parametrize(("pointer", "n", "k", "why"), [(4104, 256, 512, "no multiple of 16 bytes"), (4096, 256, 513, "rows lie 1026 bytes apart")])
def test_a_tensor_that_no_map_fits_is_refused(driver: FakeDriver, pointer: int, n: int, k: int, why: str) -> None:
    program = program_of(kernel_of(MAP), dims=("n", "k"))
    with pytest.raises(ArgumentError, match=why) as caught:
        program.run(0, pointer, n, k)
    assert "kernel k, argument A" in str(caught.value) and driver.get("launches") == 0


@pytest.mark.parametrize(
    ("box", "swizzle", "why"),
    [((128, 8), 128, "swizzle spans 128"), ((64, 512), 128, "1 to 256"), ((4, 8), 0, "multiple of 16"), ((64,), 128, "1 box sizes")],
)
def test_a_box_that_cannot_be_is_our_fault(driver: FakeDriver, box: tuple[int, ...], swizzle: int, why: str) -> None:
    spec = TensorMap("A", "bfloat16", MAP.dims, MAP.strides, box, swizzle)
    with pytest.raises(InternalError, match=why):
        program_of(kernel_of(spec), dims=("n", "k"))


# ------------------------------------------------------------------------------------------- limits and errors
def test_a_launch_that_cannot_be_is_refused_when_it_is_loaded(driver: FakeDriver) -> None:
    with pytest.raises(CapacityError, match=r"kernel k needs 233000 bytes of shared memory a block, NVIDIA H200 has 232448"):
        program_of(kernel_of(shared_bytes=232_000), static=1000)
    with pytest.raises(CapacityError, match=r"256 threads a block, at most 128 are possible \(its __launch_bounds__\)"):
        program_of(kernel_of(block=(256, 1, 1)), threads=128)
    with pytest.raises(InternalError, match=r"takes arguments of \(4,\) bytes, and would be given \(8,\)"):
        program_of(kernel_of(Pointer("A")), sizes={"k": (4,)})
    with pytest.raises(UnsupportedError, match="needs sm_90"):
        plan_of(CudaSource("", (kernel_of(cluster=(2, 1, 1)),)), (), (), "sm_80")
    with pytest.raises(UnsupportedError, match="float8_e4m3fn cannot be passed"):
        plan_of(CudaSource("", (kernel_of(Number(S, "float8_e4m3fn")),)), (), ("s",), "sm_80")
    with pytest.raises(InternalError, match="q is no dim"):
        plan_of(CudaSource("", (kernel_of(Number(Var("q"), "int32")),)), (), ("s",), "sm_80")


def test_a_failed_launch_names_the_limit(driver: FakeDriver) -> None:
    program = program_of(kernel_of(grid=(ONE, N, ONE)))
    driver.set("answer", 1)
    with pytest.raises(DriverError) as caught:
        program.run(0, 0, 70_000)
    text = str(caught.value)
    assert "kernel k (grid (1, 70000, 1), block (128, 1, 1), 0 bytes of dynamic shared memory) did not start on NVIDIA H200" in text
    assert "the grid has 70000 blocks in y, at most 65535 are possible" in text and "CUDA_ERROR_INVALID_VALUE" in text
    driver.set("answer", 1)
    with pytest.raises(DriverError, match="clusters of 2 do not divide"):
        program_of(kernel_of(grid=(N, ONE, ONE), cluster=(2, 1, 1))).run(0, 0, 5)
    driver.set("answer", 701)
    with pytest.raises(DriverError, match="128 threads of 200 registers do not fit"):
        program_of(kernel_of(), registers=200).run(0, 0, 5)
    program.run(0, 0, 3)
    assert driver.shape()[1] == 3, "a launch that failed spoils nothing"


def test_an_earlier_fault_is_not_blamed_on_this_kernel(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.set("answer", 700)
    with pytest.raises(DriverError) as caught:
        program_of(kernel_of()).run(0, 0, 5)
    assert "an earlier kernel went wrong" in str(caught.value) and "TILEWORKBENCH_CUDA_SYNC=1" in caught.value.hint
    monkeypatch.setenv("TILEWORKBENCH_CUDA_SYNC", "1")
    program = program_of(kernel_of())
    program.run(0, 0, 5)
    assert driver.get("synced") == 1
    driver.set("sync", 700)
    with pytest.raises(DriverError, match=r"kernel k \(.*\) went wrong on NVIDIA H200: an illegal memory access"):
        program.run(0, 0, 5)
    driver.set("capturing", 1)
    program.run(0, 0, 5)
    assert driver.get("synced") == 2, "a stream that is captured must not be waited for"


def test_a_thread_without_a_context_gets_the_devices(driver: FakeDriver) -> None:
    program = program_of(kernel_of())
    driver.set("context", 0)
    program.run(0, 0, 5)
    assert (driver.get("context"), driver.get("launches")) == (1000, 1)


def test_with_several_devices_the_launch_goes_to_its_own(driver: FakeDriver) -> None:
    driver.set("devices", 2)
    opened = libcuda.require_driver()
    plan = plan_of(CudaSource("", (kernel_of(),)), ("n",), (), "sm_90a")
    facts = {"k": KernelFacts("k", 32, 0, 0, 0, (), 0)}
    driver.set("context", 1000)
    program = Program(opened, opened.device(1), "sm_90a", ELF, plan, facts, ("A",), 1, 0)
    seen: list[int] = []
    launch = program.run.__globals__["launch"]
    program.launches[0].driver.launch = lambda *args: seen.append(driver.get("context")) or launch(*args)
    driver.set("answer", 400)  # what the driver says to a kernel of another device's context
    program.run(0, 0, 5)
    assert seen == [1001] and driver.get("context") == 1000, "there and back"
    with pytest.raises(UnsupportedError, match="no GPU number 2, the driver knows 2"):
        opened.device(2)


def test_registers_beyond_a_multiprocessors(driver: FakeDriver) -> None:
    with pytest.raises(CapacityError, match=r"kernel k needs 81920 registers a block \(640 threads of 128\), NVIDIA H200 has 65536"):
        program_of(kernel_of(block=(640, 1, 1)), registers=128)
    program_of(kernel_of(block=(512, 1, 1)), registers=128)


def test_code_for_another_gpu_is_refused(driver: FakeDriver) -> None:
    opened = libcuda.require_driver()
    with pytest.raises(UnsupportedError, match="code for sm_80 does not run on a GPU of compute capability 9.0") as caught:
        Program(opened, opened.device(0), "sm_80", ELF, Plan(()), {}, (), 0, 0)
    assert 'arch="sm_90a"' in caught.value.hint


def test_without_a_driver_the_error_says_so(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWORKBENCH_LIBCUDA", "/nowhere/libcuda.so")
    with pytest.raises(UnsupportedError, match=r"there is no CUDA driver \(/nowhere/libcuda.so is not found\)") as caught:
        libcuda.require_driver()
    assert "NVIDIA's driver" in caught.value.hint and libcuda.find_driver() is None and libcuda.why_no_driver()
    monkeypatch.setenv("TILEWORKBENCH_LIBCUDA", str(driver.path))
    driver.set("devices", 0)
    assert libcuda.why_no_driver() == "the CUDA driver finds no GPU"
