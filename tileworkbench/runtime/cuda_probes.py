"""CUDA C++ of the micro-benchmarks behind `Machine.measure(device="cuda")`: small kernels that need no headers, made for one compute capability.

Arithmetic kernels take (out, rounds) and do a fixed number of operations a round in independent chains; reading kernels take (data, bytes, rounds,
out); chasing kernels follow a list of indices with one thread, the global one from where the last launch ended. `out` is written in a case that
never comes, so that nothing is optimised away.
"""

from __future__ import annotations

from dataclasses import dataclass

CHAINS = 8
THREADS = 256


@dataclass(frozen=True, slots=True)
class CudaProbe:
    """An arithmetic benchmark: `ops` operations of one thread a round, in kernel `entry` of `text`; `least` is the capability it needs.

    `blocks` run on each SM. `exact` says that the text compiles for that capability only ("sm_90a").
    """

    dtype: str
    unit: str
    entry: str
    ops: float
    instruction: str
    text: str
    least: tuple[int, int] = (7, 5)
    blocks: int = 4
    shared: int = 0
    exact: str = ""


def cuda_probes(capability: tuple[int, int]) -> tuple[CudaProbe, ...]:
    """The arithmetic benchmarks that a GPU of this compute capability can run."""
    old = capability < (8, 0)
    probes = [
        _lanes("float64", "double", "a{i} = a{i} * b + c;", 2, "FMA"),
        _lanes("float32", "float", "a{i} = a{i} * b + c;", 2, "FMA"),
        _lanes("float16", "unsigned", _packed("fma.rn.f16x2"), 4, "HFMA2"),
        _lanes("bfloat16", "unsigned", _packed("fma.rn.bf16x2"), 4, "HFMA2.BF16", (8, 0)),
        _lanes("exp", "float", 'asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(a{i}));', 1, "MUFU.EX2", unit="sfu"),
        _mma("float16>float32", "m16n8k8" if old else "m16n8k16", "f32.f16.f16.f32", 2 if old else 4, 1 if old else 2, 8 if old else 16, (7, 5)),
        _mma("bfloat16>float32", "m16n8k16", "f32.bf16.bf16.f32", 4, 2, 16, (8, 0)),
        _mma("tfloat32>float32", "m16n8k8", "f32.tf32.tf32.f32", 4, 2, 8, (8, 0)),
        _mma("int8>int32", "m16n8k32", "s32.s8.s8.s32", 4, 2, 32, (8, 0)),
        _mma("float8_e4m3fn>float32", "m16n8k32", "f32.e4m3.e4m3.f32", 4, 2, 32, (8, 9)),
    ]
    if capability == (9, 0):
        probes += [_wgmma(dtype, kind) for dtype, kind in (("float16>float32", "f16"), ("bfloat16>float32", "bf16"))]
    return tuple(p for p in probes if capability >= p.least)


def _packed(instruction: str) -> str:
    return f'asm volatile("{instruction} %0, %0, %1, %2;" : "+r"(a{{i}}) : "r"(b), "r"(c));'


def _lanes(
    dtype: str, element: str, step: str, ops: int, instruction: str, least: tuple[int, int] = (7, 5), *, unit: str = "fma"
) -> CudaProbe:  # fmt: skip
    """Chains of one operation in registers; `ops` operations each time."""
    entry = f"peak_{dtype}"
    is_bits = element == "unsigned"
    start = " ".join(f"{element} a{i} = seed + ({element}){i};" for i in range(CHAINS))
    steps = " ".join(step.format(i=i) for i in range(CHAINS))
    one, two = ("0x3c003c00u", "0x00010001u") if is_bits else (f"({element})1.0001", f"({element})0.5")
    text = f"""
extern "C" __global__ void __launch_bounds__({THREADS}) {entry}(float *out, int rounds) {{
  {element} seed = ({element})threadIdx.x, b = {one}, c = {two};
  {start}
  #pragma unroll 4
  for (int r = 0; r < rounds; ++r) {{ {steps} }}
  {element} sum = {" + ".join(f"a{i}" for i in range(CHAINS))};
  if (rounds < 0) out[threadIdx.x] = (float)sum;
}}"""
    return CudaProbe(dtype, unit, entry, CHAINS * ops, instruction, text, least)


def _mma(dtype: str, shape: str, types: str, a: int, b: int, k: int, least: tuple[int, int]) -> CudaProbe:
    """Chains of warp-wide products of 16 x 8 x k: `a` and `b` registers hold a thread's part of the operands."""
    entry = "mma_" + dtype.partition(">")[0]
    is_int = types.startswith("s32")
    sums, letter = ("int", "r") if is_int else ("float", "f")
    places = [", ".join(f"%{i}" for i in range(low, low + n)) for low, n in ((0, 4), (4, a), (4 + a, b))]
    operands = ", ".join(f'"r"(x{i})' for i in range(a)) + ", " + ", ".join(f'"r"(y{i})' for i in range(b))
    chains = 4
    steps = "\n    ".join(
        f'asm volatile("mma.sync.aligned.{shape}.row.col.{types} {{{places[0]}}}, {{{places[1]}}}, {{{places[2]}}}, {{{places[0]}}};" : '
        + ", ".join(f'"+{letter}"(d[{c}][{i}])' for i in range(4))
        + f" : {operands});"
        for c in range(chains)
    )
    first = " ".join(f"unsigned x{i} = seed * {2 * i + 3}u & 0x3bff3bffu;" for i in range(a))
    second = " ".join(f"unsigned y{i} = seed * {2 * i + 5}u & 0xbbffbbffu;" for i in range(b))
    text = f"""
extern "C" __global__ void __launch_bounds__({THREADS}) {entry}(float *out, int rounds) {{
  unsigned seed = threadIdx.x * 2654435761u + 12345u;
  {first} {second}
  {sums} d[{chains}][4] = {{}};
  for (int r = 0; r < rounds; ++r) {{
    {steps}
  }}
  {sums} sum = 0;
  for (int c = 0; c < {chains}; ++c) for (int i = 0; i < 4; ++i) sum += d[c][i];
  if (rounds < 0) out[threadIdx.x] = (float)sum;
}}"""
    return CudaProbe(dtype, "tensor", entry, chains * 2 * 16 * 8 * k / 32, f"mma.sync {shape}", text, least)


def _wgmma(dtype: str, kind: str) -> CudaProbe:
    """Products of 64 x 256 x 16 by warp groups, both operands in shared memory; what they hold does not matter, but it is not zero."""
    entry = f"wgmma_{kind}"
    places = ", ".join(f"%{i}" for i in range(128))
    sums = ", ".join(f'"+f"(d[{i}])' for i in range(128))
    product = (
        f'asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.{kind}.{kind} {{{places}}}, %128, %129, 1, 1, 1, 0, 0;" '
        f': {sums} : "l"(first), "l"(second));'
    )
    text = f"""
extern "C" __global__ void __launch_bounds__({THREADS}) {entry}(float *out, int rounds) {{
  extern __shared__ __align__(1024) unsigned tile[];
  for (unsigned i = threadIdx.x; i < 2560u; i += {THREADS}u) tile[i] = (i * 2654435761u) & 0xbbffbbffu;
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  unsigned base;
  asm("{{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }}" : "=r"(base) : "l"(tile));
  unsigned long long rest = (8ull << 16) | (16ull << 32);
  unsigned long long first = (unsigned long long)((base & 0x3ffffu) >> 4) | rest;
  unsigned long long second = (unsigned long long)(((base + 2048u) & 0x3ffffu) >> 4) | rest;
  float d[128];
  #pragma unroll
  for (int i = 0; i < 128; ++i) d[i] = (float)threadIdx.x;
  for (int r = 0; r < rounds; ++r) {{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    {product}
    {product}
    {product}
    {product}
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }}
  float sum = 0;
  #pragma unroll
  for (int i = 0; i < 128; ++i) sum += d[i];
  if (rounds < 0) out[threadIdx.x] = sum;
}}"""
    return CudaProbe(dtype, "tensor", entry, 4 * 2 * 64 * 256 * 16 / 128, "wgmma m64n256k16", text, (9, 0), 1, 10240, "sm_90a")


READ_BYTES = 16 * 8  # a thread reads a round in `read_global`

MEMORY_TEXT = """
extern "C" __global__ void __launch_bounds__(512) read_global(const float4 *data, long long bytes, int rounds, float *out) {
  long long n = bytes / 16, all = (long long)gridDim.x * blockDim.x;
  float s = 0;
  for (int r = 0; r < rounds; ++r)
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += all * 8) {
      float4 v[8];
      #pragma unroll
      for (int k = 0; k < 8; ++k) {
        long long at = i + k * all;
        at = at < n ? at : i;
        asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v[k].x), "=f"(v[k].y), "=f"(v[k].z), "=f"(v[k].w) : "l"(data + at));
      }
      #pragma unroll
      for (int k = 0; k < 8; ++k) s += v[k].x + v[k].y + v[k].z + v[k].w;
    }
  if (rounds < 0) out[threadIdx.x] = s;
}
extern "C" __global__ void __launch_bounds__(256) read_shared(int rounds, float *out) {
  __shared__ float4 tile[2048];
  for (int i = threadIdx.x; i < 2048; i += 256) tile[i] = make_float4(i, 1, 2, 3);
  __syncthreads();
  float s = 0;
  unsigned base;
  asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(base) : "l"(tile + threadIdx.x));
  for (int r = 0; r < rounds; ++r) {
    float4 v[8];
    #pragma unroll
    for (int k = 0; k < 8; ++k)
      asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(v[k].x), "=f"(v[k].y), "=f"(v[k].z), "=f"(v[k].w) : "r"(base + k * 4096u));
    #pragma unroll
    for (int k = 0; k < 8; ++k) s += v[k].x + v[k].y + v[k].z + v[k].w;
  }
  if (rounds < 0) out[threadIdx.x] = s;
}
extern "C" __global__ void chase(const unsigned *next, int steps, unsigned *out) {
  unsigned at = out[0];
  for (int i = 0; i < steps; ++i) asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(at) : "l"(next + at));
  out[0] = at;
}
extern "C" __global__ void chase_shared(int steps, unsigned *out) {
  __shared__ unsigned next[1024];
  for (int i = 0; i < 1024; ++i) next[i] = (i + 33) & 1023;
  unsigned base, at = 0;
  asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(base) : "l"(next));
  for (int i = 0; i < steps; ++i) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(at) : "r"(base + at * 4u));
  out[0] = at;
}
extern "C" __global__ void nothing() {}
"""
