"""Products by a warp group, from shared memory (wgmma, sm_90a): d = a b + d where `scale_d` is not 0, else d = a b.

`twb_wgmma_m64n128k16_f32_bf16_bf16<0, 0>(d, descriptor_a, descriptor_b, scale_d)`: the numbers say whether a and b are stored with m (n) innermost,
which only 16-bit types can. `twb_wgmma_rs_...<0>(d, a, descriptor_b, scale_d)` takes a from 4 registers. All 128 threads come; d may not be touched
between the issue and the wait. These functions are made when they are asked for: there are 1,700 of them.
"""

from __future__ import annotations

import re

from .function import DeviceFunction, pair

_NAME = re.compile(r"twb_wgmma_(rs_)?m64n(\d+)k(\d+)_(f32|f16|s32)_(f16|bf16|tf32|e4m3|e5m2|s8|u8)_(f16|bf16|tf32|e4m3|e5m2|s8|u8)")
_DEPTH = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32}
_ACCUMULATORS = {
    "f16": ("f32", "f16"),
    "bf16": ("f32",),
    "tf32": ("f32",),
    "e4m3": ("f32", "f16"),
    "e5m2": ("f32", "f16"),
    "s8": ("s32",),
    "u8": ("s32",),
}


def wgmma_functions() -> tuple[DeviceFunction, ...]:
    """What surrounds the products: descriptors, fences, groups."""
    return (
        pair(
            "uint64_t twb_descriptor(uint32_t address, uint32_t leading_bytes, uint32_t stride_bytes, int span)",
            _DESCRIPTOR,
            _DESCRIPTOR,
            "The descriptor of a matrix in shared memory: where it starts, its two strides, and the bytes of a swizzled row (128, 64, 32; 0: plain).",
        ),
        pair(
            "void twb_wgmma_fence()",
            'asm volatile("wgmma.fence.sync.aligned;" ::: "memory");',
            "twbe_wgmma_fence();",
            "Before the first product, and whenever its registers were touched.",
            least_arch=90,
        ),
        pair(
            "void twb_wgmma_commit()",
            'asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");',
            "twbe_wgmma_commit();",
            "Close a group of products.",
            least_arch=90,
        ),
        pair(
            "template <int N> void twb_wgmma_wait()",
            'asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory");',
            "twbe_wgmma_wait(N);",
            "Wait until at most the N newest groups run.",
            least_arch=90,
        ),
        pair(
            "void twb_computed(float value, uint32_t word)",
            'asm volatile("{ .reg .pred p; setp.gt.f32 p, %0, 0f7F000000; @p st.shared.f32 [%1], %0; }" :: "f"(value), "r"(word) : "memory");',
            "(void)value; (void)word;",
            "Compute `value` before what follows: it may go to a word of shared memory that nobody reads. ptxas moves waits for products, but not across this.",
            least_arch=90,
        ),
        pair(
            "template <class T, int N> void twb_keep(T (&d)[N])",
            'for (int i = 0; i < N; ++i) {\n    if constexpr (sizeof(T) == 4 && T(0.5f) != T(0)) asm volatile("" : "+f"(d[i]) :: "memory");\n    else asm volatile("" : "+r"(d[i]) :: "memory");\n}',
            "(void)d;",
            "Keep the compiler from moving registers across a fence or a wait.",
        ),
    )


_DESCRIPTOR = """\
uint64_t mode = span == 128 ? 1 : span == 64 ? 2 : span == 32 ? 3 : 0;
return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)((leading_bytes & 0x3ffff) >> 4) << 16 | (uint64_t)((stride_bytes & 0x3ffff) >> 4) << 32 | mode << 62;"""


def wgmma_function(name: str) -> DeviceFunction | None:
    """The product called `name`, or None if the hardware has none like it."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    n, k, d, a, b = int(match[2]), int(match[3]), match[4], match[5], match[6]
    return _product(bool(match[1]), n, k, d, a, b) if _exists(n, k, d, a, b) else None


def _exists(n: int, k: int, d: str, a: str, b: str) -> bool:
    mixed = {a, b} <= {"e4m3", "e5m2"} or {a, b} <= {"s8", "u8"}
    fits = n % 8 == 0 and 8 <= n <= 256 and (d != "s32" or n % 16 == 0 or n in (8, 24))
    return fits and k == _DEPTH[a] and (a == b or mixed) and d in _ACCUMULATORS[a]


def _product(from_registers: bool, n: int, k: int, d: str, a: str, b: str) -> DeviceFunction:
    count = n // 2 if d != "f16" else n // 4
    kind, letter = {"f32": ("float", "f"), "s32": ("int32_t", "r"), "f16": ("uint32_t", "r")}[d]
    wide = a in ("f16", "bf16")  # only 16-bit types choose which index is innermost
    parameters = (["TRANS_B"] if from_registers else ["TRANS_A", "TRANS_B"]) if wide else []
    a_regs = "{" + ", ".join(f"%{count + i}" for i in range(4)) + "}" if from_registers else f"%{count}"
    at = count + (4 if from_registers else 1)
    tail = ("" if d == "s32" else ", 1, 1") + "".join(f", %{at + 2 + i}" for i in range(len(parameters)))
    registers = ", ".join(f"%{i}" for i in range(count))
    op = f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{d}.{a}.{b} {{{registers}}}, {a_regs}, %{at}, p{tail};"
    outs = ", ".join(f'"+{letter}"(d[{i}])' for i in range(count))
    ins = [*((f'"r"(a[{i}])' for i in range(4)) if from_registers else ('"l"(a)',)), '"l"(b)', '"r"(scale_d)', *(f'"n"({p})' for p in parameters)]
    gpu = f'asm volatile("{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{at + 1}, 0;\\n{op}\\n}}" : {outs} : {", ".join(ins)});'
    types = ", ".join(f"TWBE_{t.upper()}" for t in (d, a, b))
    trans = f"{'TRANS_A' if wide and not from_registers else 0}, {'TRANS_B' if wide else 0}"
    host = f"twbe_wgmma(d, {'a, 0' if from_registers else 'nullptr, a'}, b, {n}, {k}, {types}, scale_d, 0, 0, {trans});"
    template = f"template <{', '.join(f'int {p}' for p in parameters)}> " if parameters else ""
    operand = "const uint32_t (&a)[4]" if from_registers else "uint64_t a"
    head = (
        f"{template}void twb_wgmma_{'rs_' if from_registers else ''}m64n{n}k{k}_{d}_{a}_{b}({kind} (&d)[{count}], {operand}, uint64_t b, int scale_d)"
    )
    return pair(head, gpu, host, f"d = a b (+ d) for 64x{n}x{k} matrices of {a} and {b}, added up as {d}.", least_arch=90)
