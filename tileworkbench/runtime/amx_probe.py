"""The peak of AMX, Intel's matrix unit, where the processor has it and the operating system lets a process use it.

Tiles are large registers that Linux hands out only on request (arch_prctl, ARCH_REQ_XCOMP_PERM, state 18). The instructions stand in the text as
assembly, so the compiler needs no header and no flag for them; an assembler that does not know them is the end of it, in one line.
"""

from __future__ import annotations

from ..base.cpu import Isa
from .probes import Probe

# four independent products of 16 x 16 results, each over 64 bytes of depth
_PROBES = (
    ("amx_bf16", Probe("bfloat16>float32", "twb_amx_bf16", 4 * 2 * 16 * 16 * 32, "AMX, TDPBF16PS")),
    ("amx_int8", Probe("int8>int32", "twb_amx_int8", 4 * 2 * 16 * 16 * 64, "AMX, TDPBSSD")),
)


def amx_probes(isa: Isa) -> tuple[Probe, ...]:
    """The products that this processor's matrix unit knows."""
    return tuple(probe for flag, probe in _PROBES if isa.has("amx_tile") and isa.has(flag))


def amx_text(isa: Isa) -> str:
    """C text of the probes: args = (rounds); they return 1 where the system refuses the tiles, and do nothing then."""
    return "".join([_HEAD, *(_text(probe) for probe in amx_probes(isa))])


_HEAD = """
typedef long long i64;
extern long syscall(long, ...);
struct __attribute__((packed)) twb_tiles { unsigned char palette, start, rest[14]; unsigned short row_bytes[16]; unsigned char rows[16]; };
static void twb_tiles_on(void) {
  struct twb_tiles t = {0};
  t.palette = 1;
  for (int i = 0; i < 8; i++) t.row_bytes[i] = 64, t.rows[i] = 16;
  __asm__ volatile("ldtilecfg %0" : : "m"(t));
  __asm__ volatile("tilezero %tmm0\\ntilezero %tmm1\\ntilezero %tmm2\\ntilezero %tmm3\\ntilezero %tmm4\\ntilezero %tmm5\\ntilezero %tmm6");
}
"""


def _text(probe: Probe) -> str:
    name = probe.instruction.split()[-1].lower()
    step = "".join(f"{name} %tmm6, %tmm{4 + i % 2}, %tmm{i}\\n" for i in range(4))
    return f"""
int {probe.entry}(const i64 *args, int threads) {{
  if (syscall(158, 0x1023L, 18L)) return 1;
  #pragma omp parallel num_threads(threads)
  {{
    twb_tiles_on();
    for (i64 r = 0; r < args[0]; r++) __asm__ volatile("{step}");
    __asm__ volatile("tilerelease");
  }}
  return 0;
}}
"""
