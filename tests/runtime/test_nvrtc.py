"""CUDA text to machine code, and what the machine code says of itself. Needs NVRTC, and neither a GPU nor a driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from tileworkbench.base.errors import CapacityError, CompilerError, InternalError, TileValueError
from tileworkbench.base.machine import find_machine
from tileworkbench.base.span import Span
from tileworkbench.runtime import diagnostics, nvrtc, sass
from tileworkbench.runtime.cubin import KernelFacts, read_cubin
from tileworkbench.runtime.gpu_arch import parse_arch, why_not_on
from tileworkbench.runtime.options import make_options
from tileworkbench.runtime.target_cuda import choose_arch

TEXT = """struct __align__(64) Map { unsigned long long words[16]; };
__device__ float twice(float x) {
  return x * 2.0f;
}
extern "C" __global__ void __launch_bounds__(256) one(const __grid_constant__ Map map, const float *a, float *b, unsigned char flag, double d) {
  __shared__ float tile[512];
  tile[threadIdx.x] = a[threadIdx.x] + (float)map.words[3];
  __syncthreads();
  b[threadIdx.x] = twice(tile[255 - threadIdx.x]) + flag + (float)d;
}
"""
SPILLING = """extern "C" __global__ void __launch_bounds__(1024) spilling(float *a, int n) {
  float v[120];
  #pragma unroll
  for (int i = 0; i < 120; ++i) v[i] = a[i * n];
  for (int k = 0; k < n; ++k)
    #pragma unroll
    for (int i = 0; i < 120; ++i) v[i] = v[i] * v[(i + 7) % 120] + a[k];
  #pragma unroll
  for (int i = 0; i < 120; ++i) a[i * n] = v[i];
}
"""


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_90a", "sm_100a", "sm_120"])
def test_the_facts_of_a_cubin(arch: str) -> None:
    made = nvrtc.compile_text(TEXT + SPILLING, arch)
    one, spilling = read_cubin(made.cubin, made.log)
    assert (one.name, one.max_threads, one.shared_bytes, one.local_bytes, one.spills) == ("one", 256, 2048, 0, False)
    assert [size for _, size in one.params] == [128, 8, 8, 1, 8]
    assert 0 < one.registers < 64
    assert (spilling.name, spilling.max_threads, spilling.shared_bytes) == ("spilling", 1024, 0)
    assert spilling.registers <= 64 and spilling.spills and f"{spilling.local_bytes} bytes cumulative stack size" in made.log
    assert f"Used {one.registers} registers" in made.log and f"Used {spilling.registers} registers" in made.log, "as the compiler reports"
    assert f"{spilling.spill_stores} bytes spill stores, {spilling.spill_loads} bytes spill loads" in made.log
    assert KernelFacts.from_data(json.loads(json.dumps(one.data()))) == one


def test_a_cluster_stands_in_the_cubin() -> None:
    text = 'extern "C" __global__ void __cluster_dims__(2, 1, 1) pair(float *a) { a[blockIdx.x] = 1; }'
    made = nvrtc.compile_text(text, "sm_90")
    assert read_cubin(made.cubin)[0].cluster == (2, 1, 1)


def test_what_is_no_cubin_is_refused() -> None:
    for damaged in (b"", b"\x7fELF\x02" + bytes(10), nvrtc.compile_text(TEXT, "sm_80").cubin[:500]):
        with pytest.raises(InternalError):
            read_cubin(damaged)


def test_occupancy_follows_the_compilers_numbers() -> None:
    """By hand: 256 threads are 8 warps; 32 registers take 1024 of a warp; 100 KiB and the system's 1 KiB leave room for two of 228 KiB."""
    h200 = find_machine("h200")
    facts = KernelFacts("k", 32, 0, 1024, 256, (), 0)
    assert facts.occupancy(h200, 256, 99 << 10).blocks == 2
    assert facts.occupancy(h200, 256, 99 << 10).limiter == "shared memory"
    assert facts.occupancy(h200, 256).blocks == 8, "65536 registers / (8 x 1024) = 8, and 64 warps / 8 = 8"
    assert facts.occupancy(h200, 1024).blocks == 2
    wide = KernelFacts("k", 168, 0, 0, 384, (), 0).occupancy(h200, 384)
    assert (wide.blocks, wide.limiter) == (1, "registers")
    assert not facts.occupancy(h200, 256, 227 << 10).is_legal, "1 KiB of static memory too much"


# ------------------------------------------------------------------------------------------- errors
def test_an_error_stands_at_the_authors_line() -> None:
    span = Span("k.py", 7, 4, 7, 9, text="    T.copy(A, B)")
    with pytest.raises(CompilerError) as caught:
        nvrtc.compile_text(TEXT.replace("twice(tile", "thrice(tile"), "sm_90a", lines={8: span})
    assert caught.value.span is span
    text = str(caught.value)
    assert text.startswith("k.py:7:5: compiler error: NVRTC ") and 'identifier "thrice" is undefined' in text
    assert "in the generated CUDA text, line 9: b[threadIdx.x] = thrice(" in text
    assert "CUDA text line 9: error" in caught.value.__notes__[0]


def test_errors_of_the_assembler_have_no_line() -> None:
    with pytest.raises(CompilerError, match="Unknown modifier") as caught:
        nvrtc.compile_text('extern "C" __global__ void k() { asm volatile("bogus.ptx;"); }', "sm_90a", lines={1: Span("k.py", 1, 0, 1, 1)})
    assert caught.value.span is None
    with pytest.raises(CompilerError, match="Unresolved extern") as caught:
        nvrtc.compile_text('__device__ void other();\nextern "C" __global__ void k() { other(); }', "sm_90a")
    assert "T.import_source" in caught.value.hint


def test_too_much_static_shared_memory_is_said_in_numbers() -> None:
    with pytest.raises(CapacityError) as caught:
        nvrtc.compile_text(TEXT.replace("tile[512]", "tile[60000]"), "sm_90a")
    assert "kernel one has 240000 bytes of static shared memory, at most 232448 are possible on sm_90a" in str(caught.value)


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(CompilerError, match="--bogus"):
        nvrtc.compile_text(TEXT, "sm_80", ["--bogus"])


def test_a_warning_is_kept() -> None:
    made = nvrtc.compile_text(TEXT.replace("return x * 2.0f;", "int x2 = 1u / 0u; return x * x2;"), "sm_80")
    assert any("division by zero" in w for w in made.warnings)
    assert nvrtc.compile_text(TEXT, "sm_80").warnings == ()


def test_messages_of_nvrtc_are_parsed() -> None:
    said = 'kernel.cu(3): error: identifier "x" is undefined\n  x;\n  ^\n\nkernel.cu(9): warning #177-D: y\n'
    said += "ptxas fatal   : Unresolved extern function 'f'\n"
    assert [(d.severity, d.line, d.message) for d in diagnostics.parse(said)] == [
        ("error", 3, 'identifier "x" is undefined'), ("warning", 9, "y"), ("fatal error", 0, "Unresolved extern function 'f'"),
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------- finding
def test_without_nvrtc_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWORKBENCH_NVRTC", "none")
    with pytest.raises(CompilerError) as caught:
        nvrtc.compile_text(TEXT, "sm_80")
    assert "pip install tileworkbench[cuda]" in str(caught.value) and "nvidia-cuda-nvrtc" in str(caught.value)
    monkeypatch.setenv("TILEWORKBENCH_NVRTC", "/nowhere/libnvrtc.so")
    assert "/nowhere/libnvrtc.so" in nvrtc.why_no_nvrtc() and nvrtc.find_nvrtc() is None


def test_the_newest_library_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cuda_nvrtc/lib/libnvrtc.so.12", "cu13/lib/libnvrtc.so.13", "cu13/lib/libnvrtc-builtins.so.13.0", "cu13/lib/libnvrtc.alt.so.13"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setattr(nvrtc, "wheel_folders", lambda: [tmp_path])
    found = [str(Path(p).relative_to(tmp_path)) for p in nvrtc.candidates() if p.startswith(str(tmp_path))]
    assert found == ["cu13/lib/libnvrtc.so.13", "cuda_nvrtc/lib/libnvrtc.so.12"]
    assert [*nvrtc.candidates("none")] == [] and [*nvrtc.candidates("mine.so")] == ["mine.so"]


def test_the_drivers_cuda_decides_between_several(monkeypatch: pytest.MonkeyPatch) -> None:
    def library(path: str) -> types.SimpleNamespace:
        return types.SimpleNamespace(version=(int(path), 0))

    monkeypatch.setattr(nvrtc, "Nvrtc", library)
    monkeypatch.setattr(nvrtc, "candidates", lambda *_: ["13", "12"])
    for driver, wanted in ((None, 13), ((13, 0), 13), ((12, 4), 12), ((11, 8), 13)):
        monkeypatch.setattr(nvrtc, "cuda_version", lambda version=driver: version)
        found = nvrtc._find.__wrapped__("", "")
        assert found is not None and found.version[0] == wanted, driver


def test_a_library_of_a_wheel_is_found_without_asking_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(nvrtc.ctypes.util, "find_library", asked.append)
    monkeypatch.setattr(nvrtc, "wheel_folders", list)
    assert nvrtc._find.__wrapped__("", "") is None and asked == ["nvrtc"]
    monkeypatch.undo()
    monkeypatch.setattr(nvrtc.ctypes.util, "find_library", asked.append)
    nvrtc._find.__wrapped__("", "")
    assert len(asked) == 1 or not nvrtc.wheel_folders()


def test_finding_it_imports_nothing() -> None:
    code = "import sys, tileworkbench.runtime.target_cuda as t; t.find_nvrtc(); print({'cuda', 'cupy', 'torch', 'nvidia'} & set(sys.modules))"
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ":".join(sys.path)}, check=True
    )
    assert said.stdout.strip() == "set()"


# ------------------------------------------------------------------------------------------- architectures
def test_a_wrong_architecture_is_refused_with_the_list() -> None:
    with pytest.raises(TileValueError) as caught:
        nvrtc.compile_text(TEXT, "sm_91")
    assert "there is no GPU architecture 'sm_91'" in str(caught.value) and "sm_80" in caught.value.hint and "sm_90a" in caught.value.hint
    with pytest.raises(TileValueError) as caught:
        parse_arch("sm_80a")
    assert caught.value.hint == "did you mean sm_80?"
    with pytest.raises(TileValueError):
        parse_arch("volta")


def test_where_machine_code_runs() -> None:
    assert why_not_on("sm_80", (8, 6)) == "" and why_not_on("sm_90a", (9, 0)) == ""
    for arch, device in (("sm_86", (8, 0)), ("sm_80", (9, 0)), ("sm_90a", (10, 0)), ("sm_100a", (10, 3))):
        assert "does not run on a GPU of compute capability" in why_not_on(arch, device), (arch, device)


def test_a_target_may_name_the_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    for target in ("cuda:sm_80", "cuda -arch=sm_80", {"kind": "cuda", "arch": "sm_80"}):
        options = make_options(target=target)
        assert (options.target, options.arch) == ("cuda", "sm_80")
    assert (make_options(target="cuda").arch, make_options(target="c").arch, make_options(target="c").target) == ("", "", "c")
    monkeypatch.setenv("TILEWORKBENCH_LIBCUDA", "/nowhere/libcuda.so")
    assert choose_arch("sm80") == "sm_80"
    assert choose_arch("") == "sm_90a", "without a device"
    monkeypatch.setenv("TILEWORKBENCH_CUDA_ARCH", "sm_86")
    assert choose_arch("") == "sm_86"


# ------------------------------------------------------------------------------------------- machine code as text
LISTING = """\t.section\t.text.one,"ax",@progbits
one:
.text.one:
\t//## File "kernel.cu", line 7
        /*0000*/                   LDG.E R2, desc[UR4][R2.64] ;
\t//## File "kernel.cu", line 3 inlined at "kernel.cu", line 9
\t//## File "kernel.cu", line 9
        /*0010*/              @!P0 BRA `(.L_x_1) ;
.L_x_1:
\t//## File "kernel.cu", line 9
        /*0020*/                   STG.E desc[UR4][R4.64], R5 ;
"""


def test_instructions_know_the_authors_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_cache: Path) -> None:
    tool = tmp_path / "nvdisasm"
    (tmp_path / "listing").write_text(LISTING)
    tool.write_text(f"#!/bin/sh\ncat {tmp_path / 'listing'}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    spans = {line: Span("k.py", line + 100, 0, line + 100, 1) for line in (7, 9)}
    stage = sass.sass_stage(b"cubin", TEXT, spans)
    assert stage.text.splitlines() == [
        "one:",
        "    LDG.E R2, desc[UR4][R2.64]",
        "    @!P0 BRA `(.L_x_1)",
        ".L_x_1:",
        "    STG.E desc[UR4][R4.64], R5",
    ]
    assert {line: [s.line for s in twins] for line, twins in stage.twins.items()} == {2: [107], 3: [109], 5: [109]}


def test_without_a_disassembler_the_stage_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sass, "wheel_folders", list)
    stage = sass.sass_stage(b"", TEXT, {})
    assert stage.text == "" and "pip install nvidia-cuda-nvdisasm" in stage.why
    tool = tmp_path / "nvdisasm"
    tool.write_text("#!/bin/sh\necho no such thing\nexit 3\n")
    tool.chmod(0o755)
    assert "nvdisasm failed: no such thing" in sass.sass_stage(b"", TEXT, {}).why


def test_parsing_keeps_only_labels_that_are_used() -> None:
    found = sass.parse(LISTING.replace("`(.L_x_1)", "`(.L_x_7)"))
    assert ".L_x_1:" not in found.text.splitlines()
    assert list(found.cuda_lines.items()) == [(2, 7), (3, 9), (4, 9)]
