"""C text of the probes that time single steps of what the C target emits: micro-kernels, packing, conversions, row copies, passes over a tile.

They call the very functions that emitted kernels call, so a change of the library or of the compiler shows in what they measure. Each follows the
kernels' calling convention, `entry(const int64_t *args, int32_t threads)`, with args = (rounds, memory, ...).
"""

from __future__ import annotations

from ..base.cpu import Isa
from ..base.dtypes import DType
from ..codegen.clib import library
from ..codegen.microgemm import GemmSpec, gemm_name, gemm_needs, gemm_scratch_bytes, gemm_text

TILE = 4096  # elements of a tile that stays in L1
ROW = 512  # elements of one of its rows
_F32, _F16 = DType("float32"), DType("float16")

PASSES = {
    # name -> what one element of a pass over a float32 tile does; `y` holds one value a row
    "pass": "x[i * N + j] = x[i * N + j] * y[i];",
    "exp": "x[i * N + j] = twb_exp2_f32(x[i * N + j] * 0.5f - y[i]);",
    "log": "x[i * N + j] = twb_log2_f32(x[i * N + j] * 0.5f + 3.0f);",
    "div": "x[i * N + j] = x[i * N + j] / y[i];",
}


def gemm_specs(isa: Isa) -> dict[str, GemmSpec]:
    """The products that are timed, by name: two depths in L1, one whose operands stream from L2, and one with a transposed operand."""

    def spec(m: int, n: int, k: int, dtype: DType = _F32, *, turned: bool = False) -> GemmSpec:
        return GemmSpec(m, n, k, dtype, dtype, _F32, k, k if turned else n, n, trans_b=turned, isa=isa)

    wide = 4 * isa.vector_bytes // 4  # columns of four vectors
    return {
        "deep": spec(24, wide, 96),
        "shallow": spec(24, wide, 8),
        "streamed": spec(96, 4 * wide, 256),
        "turned": spec(24, wide, 96, turned=True),
    }


def cost_probe_text(isa: Isa) -> str:
    """The C text of every probe."""
    specs = gemm_specs(isa)
    needs = ["twb_exp2_f32", "twb_log2_f32", "twb_row_max_f32", "twb_row_sum_f32", "twb_copy_f32_to_f16", "twb_copy_f16_to_f32"]
    needs += [name for spec in specs.values() for name in gemm_needs(spec)]
    parts = [library(needs), "typedef long long i64;\nextern void *memcpy(void *, const void *, __SIZE_TYPE__);\n"]
    parts += [gemm_text(*specs.values()), *(_gemm(name, spec) for name, spec in specs.items())]
    parts += [_pass(name, text) for name, text in PASSES.items()]
    return "".join([*parts, _REST])


def gemm_bytes(spec: GemmSpec) -> int:
    """Memory that the probe of a product needs: operands, result and scratch."""
    return 4 * (spec.m * spec.k + spec.k * spec.n + spec.m * spec.n) + gemm_scratch_bytes(spec) + 256


def _gemm(name: str, spec: GemmSpec) -> str:
    a, b = 4 * spec.m * spec.k, 4 * spec.k * spec.n
    c = 4 * spec.m * spec.n
    return f"""
int twb_cost_gemm_{name}(const i64 *args, int threads) {{
  char *p = (char *)args[1];
  for (i64 r = 0; r < args[0]; r++) {gemm_name(spec)}((void *)p, (void *)(p + {a}), (void *)(p + {a + b}), 0, p + {a + b + c});
  return 0 * threads;
}}
"""


def _pass(name: str, text: str) -> str:
    return f"""
int twb_cost_{name}(const i64 *args, int threads) {{
  enum {{ N = {ROW} }};
  float *const x = (float *)args[1], *const y = x + {TILE}; /* one value a row, for those that need it */
  (void)y;
  for (i64 r = 0; r < args[0]; r++) {{
    for (int64_t i = 0; i < {TILE} / N; ++i) {{
      #pragma omp simd
      for (int32_t j = 0; j < N; ++j) {{ {text} }}
    }}
    __asm__ volatile("" : : "r"(x) : "memory");
  }}
  return 0 * threads;
}}
"""


# rows: args = (rounds, tile, elements of a row). copies: args = (tiles, tile, source, bytes of a row, stride, rows of a tile, tiles side by side)
_REST = f"""
int twb_cost_widen(const i64 *args, int threads) {{
  const uint16_t *h = (const uint16_t *)args[1];
  float *x = (float *)(h + {TILE});
  for (i64 r = 0; r < args[0]; r++) {{
    for (i64 i = 0; i < {TILE // ROW}; ++i) twb_copy_f16_to_f32(h + i * {ROW}, x + i * {ROW}, {ROW});
    __asm__ volatile("" : : "r"(x) : "memory");
  }}
  return 0 * threads;
}}
int twb_cost_narrow(const i64 *args, int threads) {{
  const float *x = (const float *)args[1];
  uint16_t *h = (uint16_t *)(x + {2 * TILE});
  for (i64 r = 0; r < args[0]; r++) {{
    for (i64 i = 0; i < {TILE // ROW}; ++i) twb_copy_f32_to_f16(x + i * {ROW}, h + i * {ROW}, {ROW});
    __asm__ volatile("" : : "r"(h) : "memory");
  }}
  return 0 * threads;
}}
int twb_cost_sums(const i64 *args, int threads) {{
  const float *x = (const float *)args[1];
  const i64 n = args[2];
  float keep = 0;
  for (i64 r = 0; r < args[0]; r++) {{
    for (i64 i = 0; i + n <= {TILE}; i += n) keep += twb_row_sum_f32(x + i, n);
    for (i64 i = 0; i + n <= {TILE}; i += n) keep += twb_row_max_f32(x + i, n);
    __asm__ volatile("" : "+m"(keep) : : "memory");
  }}
  return 0 * threads;
}}
int twb_cost_fill(const i64 *args, int threads) {{
  float *x = (float *)args[1];
  for (i64 r = 0; r < args[0]; r++) {{
    #pragma omp simd
    for (int32_t i = 0; i < {TILE}; ++i) x[i] = 0.0f;
    __asm__ volatile("" : : "r"(x) : "memory");
  }}
  return 0 * threads;
}}
static void twb_tile(char *to, i64 to_stride, const char *from, i64 from_stride, i64 bytes, i64 rows) {{
  for (i64 i = 0; i < rows; i++) memcpy(to + i * to_stride, from + i * from_stride, bytes);
}}
int twb_cost_load(const i64 *args, int threads) {{
  for (i64 t = 0; t < args[0]; t++) {{
    const char *from = (const char *)args[2] + t / args[6] * args[5] * args[4] + t % args[6] * args[3];
    twb_tile((char *)args[1], args[3], from, args[4], args[3], args[5]);
  }}
  return 0 * threads;
}}
int twb_cost_store(const i64 *args, int threads) {{ /* loads a tile and stores it args[7] bytes further on */
  for (i64 t = 0; t < args[0]; t++) {{
    char *at = (char *)args[2] + t / args[6] * args[5] * args[4] + t % args[6] * args[3];
    twb_tile((char *)args[1], args[3], at, args[4], args[3], args[5]);
    twb_tile(at + args[7], args[4], (const char *)args[1], args[3], args[3], args[5]);
  }}
  return 0 * threads;
}}
int twb_cost_fork(const i64 *args, int threads) {{
  for (i64 r = 0; r < args[0]; r++) {{
    #pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1)
    for (i64 i = 0; i < args[1]; ++i) __asm__ volatile("" : : "r"(i) : "memory");
  }}
  return 0;
}}
"""
