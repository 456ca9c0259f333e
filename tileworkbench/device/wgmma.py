"""Products by a warp group, from shared memory (wgmma, sm_90a): d = a b + d where `scale_d` is not 0, else d = a b.

`twb_wgmma_m64n128k16_f32_bf16_bf16<0, 0>(d, descriptor_a, descriptor_b, scale_d)`: the numbers say whether a and b are stored with m (n) innermost,
which only 16-bit types can. `twb_wgmma_rs_...<0>(d, a, descriptor_b, scale_d)` takes a from 4 registers. All 128 threads come; d may not be touched
between the issue and the wait. `..k16x8_...(d, 8 descriptors a, 8 descriptors b, scale_d)` are eight products in a row, the later ones added to the
first: one place where the compiler has to think of the registers of d, which takes a fifth off its time. These functions are made when they are
asked for: there are 1,700 of them for one product.

`twb_keep_f32x64(d)` holds 64 registers where they are, in one piece: one asm of all of them costs the compiler a tenth less than one of each.
"""

from __future__ import annotations

import re

from .function import DeviceFunction, pair

MOST_IN_A_ROW = 16
MOST_KEPT = 128  # registers of one product
_NAME = re.compile(r"twb_wgmma_(rs_)?m64n(\d+)k(\d+)(?:x(\d+))?_(f32|f16|s32)_(f16|bf16|tf32|e4m3|e5m2|s8|u8)_(f16|bf16|tf32|e4m3|e5m2|s8|u8)")
_KEEP = re.compile(r"twb_keep_(f32|s32|u32)x(\d+)")
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
    )


_DESCRIPTOR = """\
uint64_t mode = span == 128 ? 1 : span == 64 ? 2 : span == 32 ? 3 : 0;
return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)((leading_bytes & 0x3ffff) >> 4) << 16 | (uint64_t)((stride_bytes & 0x3ffff) >> 4) << 32 | mode << 62;"""


def wgmma_function(name: str) -> DeviceFunction | None:
    """The product, or what keeps its registers, called `name`; None if the hardware has none like it."""
    if (kept := _KEEP.fullmatch(name)) is not None:
        return _keep(kept[1], int(kept[2])) if 0 < int(kept[2]) <= MOST_KEPT else None
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    n, k, count, (d, a, b) = int(match[2]), int(match[3]), int(match[4] or 1), match.groups()[4:]
    return _products(bool(match[1]), n, k, count, d, a, b) if _exists(n, k, d, a, b) and 1 <= count <= MOST_IN_A_ROW else None


def _exists(n: int, k: int, d: str, a: str, b: str) -> bool:
    mixed = {a, b} <= {"e4m3", "e5m2"} or {a, b} <= {"s8", "u8"}
    fits = n % 8 == 0 and 8 <= n <= 256 and (d != "s32" or n % 16 == 0 or n in (8, 24))
    return fits and k == _DEPTH[a] and (a == b or mixed) and d in _ACCUMULATORS[a]


def _keep(kind: str, count: int) -> DeviceFunction:
    letter = "f" if kind == "f32" else "r"
    registers = ", ".join(f'"+{letter}"(d[{i}])' for i in range(count))
    c_type = {"f32": "float", "s32": "int32_t", "u32": "uint32_t"}[kind]
    says = "Keep the compiler from moving registers across a fence or a wait."
    return pair(f"void twb_keep_{kind}x{count}({c_type} (&d)[{count}])", f'asm volatile("" : {registers} :: "memory");', "(void)d;", says)


def _products(from_registers: bool, n: int, k: int, steps: int, d: str, a: str, b: str) -> DeviceFunction:
    count = n // 2 if d != "f16" else n // 4
    kind, letter = {"f32": ("float", "f"), "s32": ("int32_t", "r"), "f16": ("uint32_t", "r")}[d]
    wide = a in ("f16", "bf16")  # only 16-bit types choose which index is innermost
    parameters = (["TRANS_B"] if from_registers else ["TRANS_A", "TRANS_B"]) if wide else []
    numbers = [""] if steps == 1 else [str(i) for i in range(steps)]
    lefts = [f"a[{i}]" for i in range(4 * steps)] if from_registers else [f"a{i}" for i in numbers]
    right_at = count + len(lefts)
    scale_at = right_at + steps
    tail = ("" if d == "s32" else ", 1, 1") + "".join(f", %{scale_at + 1 + i}" for i in range(len(parameters)))
    registers = ", ".join(f"%{i}" for i in range(count))
    op = f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{d}.{a}.{b} {{{registers}}}"
    asm = [f"setp.ne.b32 p, %{scale_at}, 0;"]
    for i in range(steps):
        left = "{" + ", ".join(f"%{count + 4 * i + j}" for j in range(4)) + "}" if from_registers else f"%{count + i}"
        asm.append(f"{op}, {left}, %{right_at + i}, p{tail};")
        if i == 0 and steps > 1:
            asm.append("setp.eq.b32 p, 0, 0;")
    outs = ", ".join(f'"+{letter}"(d[{i}])' for i in range(count))
    ins = [*(f'"{"r" if from_registers else "l"}"({x})' for x in lefts), *(f'"l"(b{i})' for i in numbers), '"r"(scale_d)']
    ins += [f'"n"({p})' for p in parameters]
    text = "\\n".join(["{", ".reg .pred p;", *asm, "}"])
    gpu = f'asm volatile("{text}" : {outs} : {", ".join(ins)});'
    types = ", ".join(f"TWBE_{t.upper()}" for t in (d, a, b))
    trans = f"{'TRANS_A' if wide and not from_registers else 0}, {'TRANS_B' if wide else 0}"
    host = "\n".join(
        f"twbe_wgmma(d, {f'a + {4 * i}, 0' if from_registers else f'nullptr, a{x}'}, b{x}, {n}, {k}, {types}, {'1' if i else 'scale_d'}, 0, 0, {trans});"
        for i, x in enumerate(numbers)
    )
    template = f"template <{', '.join(f'int {p}' for p in parameters)}> " if parameters else ""
    operands = [f"const uint32_t (&a)[{4 * steps}]"] if from_registers else [f"uint64_t a{i}" for i in numbers]
    operands += [f"uint64_t b{i}" for i in numbers]
    repeated = f"x{steps}" if steps > 1 else ""
    name = f"twb_wgmma_{'rs_' if from_registers else ''}m64n{n}k{k}{repeated}_{d}_{a}_{b}"
    head = f"{template}void {name}({kind} (&d)[{count}], {', '.join(operands)}, int scale_d)"
    row = f"{steps} products in a row of" if steps > 1 else "for"
    return pair(head, gpu, host, f"d = a b (+ d) {row} 64x{n}x{k} matrices of {a} and {b}, added up as {d}.", least_arch=90)
