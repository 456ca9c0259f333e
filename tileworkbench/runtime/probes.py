"""The micro-benchmarks behind `Machine.measure`: small C functions made for one instruction set, with GCC vector types.

Each follows the kernels' calling convention: `entry(const int64_t *args, int32_t threads)`; every thread does the whole work, so `threads` of them do
`threads` times as much. Arithmetic: args = (rounds); accumulators are independent chains, enough to fill two FMA units of latency 4.
Reading: args = (pointer, bytes to read, passes, bytes between threads); each thread reads its own part again and again.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..base.cpu import Isa

CHAINS = 12
READ_CHAINS = 8


@dataclass(frozen=True, slots=True)
class Probe:
    """An arithmetic benchmark: `ops` operations a round (an FMA is two), in function `entry`."""

    dtype: str
    entry: str
    ops: int
    instruction: str


def arithmetic_probes(isa: Isa) -> tuple[Probe, ...]:
    """The dtypes that this instruction set computes in by itself."""
    lanes = isa.vector_bytes
    bits = f"{isa.vector_bytes * 8} bits"
    fused = "FMA" if isa.name != "generic" else "multiply and add"
    probes = [
        Probe("float64", "twb_peak_float64", CHAINS * 2 * lanes // 8, f"{fused}, {bits}"),
        Probe("float32", "twb_peak_float32", CHAINS * 2 * lanes // 4, f"{fused}, {bits}"),
        Probe("int32", "twb_peak_int32", CHAINS * 2 * lanes // 4, f"multiply and add, {bits}"),
    ]
    if isa.has("avx512_fp16"):
        probes.append(Probe("float16", "twb_peak_float16", CHAINS * 2 * lanes // 2, f"{fused}, {bits}"))
    if isa.has("avx512_vnni"):
        probes.append(Probe("int8", "twb_peak_int8", CHAINS * 2 * lanes, f"VPDPBUSD, {bits}"))
    return tuple(probes)


def probe_text(isa: Isa) -> str:
    """The C text of every probe of `isa`, and of the reader `twb_read`."""
    parts = ["typedef long long i64;", f"typedef float vf __attribute__((vector_size({isa.vector_bytes}), may_alias));"]
    parts += [_arithmetic(probe, isa) for probe in arithmetic_probes(isa)]
    return "\n".join([*parts, _reader(isa)])


def _arithmetic(probe: Probe, isa: Isa) -> str:
    element = {"float64": "double", "float32": "float", "int32": "int", "float16": "_Float16", "int8": "int"}[probe.dtype]
    names = [f"a{i}" for i in range(CHAINS)]
    vector = f"v_{probe.dtype}"
    start = " ".join(f"{vector} {n} = seed + ({element}){i};" for i, n in enumerate(names))
    if probe.dtype == "int8":
        step = " ".join(f"{n} = TWB_DOT({n}, b, c);" for n in names)
        head = """
#ifdef __clang__
#define TWB_DOT(s, x, y) (v_int8)__builtin_ia32_vpdpbusd512(s, x, y)
#else
#define TWB_DOT(s, x, y) (v_int8)__builtin_ia32_vpdpbusd_v16si(s, x, y)
#endif"""
    else:
        step = " ".join(f"{n} = {n} * b + c;" for n in names)
        head = ""
    return f"""
typedef {element} {vector} __attribute__((vector_size({isa.vector_bytes})));{head}
static {vector} work_{probe.dtype}(i64 rounds) {{
  {vector} seed = {{0}}, b = seed + ({element})1, c = seed + ({element})2;
  __asm__ volatile("" : "+m"(b), "+m"(c));
  {start}
  for (i64 r = 0; r < rounds; ++r) {{ {step} }}
  return {" + ".join(names)};
}}
int {probe.entry}(const i64 *args, int threads) {{
  #pragma omp parallel num_threads(threads)
  {{
    {vector} sum = work_{probe.dtype}(args[0]);
    __asm__ volatile("" : : "m"(sum));
  }}
  return 0;
}}"""


def _reader(isa: Isa) -> str:
    names = [f"s{i}" for i in range(READ_CHAINS)]
    step = isa.vector_bytes
    loads = " ".join(f"{n} += *(const vf *)(p + i + {k * step});" for k, n in enumerate(names))
    return f"""
#ifdef _OPENMP
int omp_get_thread_num(void);
#else
static int omp_get_thread_num(void) {{ return 0; }}
#endif
static vf read_part(const char *p, i64 bytes, i64 passes) {{
  vf {", ".join(f"{n} = {{0}}" for n in names)};
  for (i64 k = 0; k < passes; ++k) {{
    for (i64 i = 0; i < bytes; i += {READ_CHAINS * step}) {{ {loads} }}
    __asm__ volatile("" : : : "memory");
  }}
  return {" + ".join(names)};
}}
int twb_read(const i64 *args, int threads) {{
  #pragma omp parallel num_threads(threads)
  {{
    vf sum = read_part((const char *)args[0] + args[3] * omp_get_thread_num(), args[1], args[2]);
    __asm__ volatile("" : : "m"(sum));
  }}
  return 0;
}}
"""
