"""Atomic updates of global and shared memory; all but `store` return the value before. Narrow floats and pairs: added in their own precision."""

from __future__ import annotations

from ..codegen.clib.function import C_TYPE, INTEGERS
from .function import DeviceFunction, pair

_WORDS = {"i32": "int", "u32": "unsigned", "u64": "unsigned long long"}


def atomic_functions() -> tuple[DeviceFunction, ...]:
    """add min max and or xor exch cas of numbers; add of vectors; loads and stores with a memory order."""
    return (*_integers(), *_small(), *_floats(), *_narrow(), *_plain(), *_vectors(), *_ordered())


def _host(kind: str, update: str, can_spin: bool = False) -> str:
    place = f"auto *at = ({kind} *)p.place(sizeof({kind}), TWBE_ATOMIC); {kind} old = *at, now = {update}; *at = now;"
    # one that changes nothing may be one of many: a lock that is taken, a counter that is watched
    return f"{place} return old;" if not can_spin else f"{place} if (!__builtin_memcmp(&now, &old, sizeof now)) twbe_look(at, old); return old;"


def _integers() -> list[DeviceFunction]:
    out = []
    for s in ("i32", "u32", "i64", "u64"):
        t = C_TYPE[s]
        wide = "unsigned long long" if s == "i64" else _WORDS.get(s, t)
        cast = f"({wide} *)p"
        updates = {"add": f"({t})((u{t.lstrip('u')})old + (u{t.lstrip('u')})v)", "and": "old & v", "or": "old | v", "xor": "old ^ v", "exch": "v"}
        for op, update in updates.items():
            name = op.capitalize()
            out.append(
                pair(
                    f"template <class P> {t} twb_atomic_{op}_{s}(P p, {t} v)",
                    f"return ({t})atomic{name}({cast}, ({wide})v);",
                    _host(t, update, op in ("add", "or", "exch")),
                    f"Atomic {op} of {t}.",
                )
            )
        for op, sign in (("min", "<"), ("max", ">")):
            signed = "long long" if s == "i64" else wide
            out.append(
                pair(
                    f"template <class P> {t} twb_atomic_{op}_{s}(P p, {t} v)",
                    f"return ({t})atomic{op.capitalize()}(({signed} *)p, ({signed})v);",
                    _host(t, f"v {sign} old ? v : old"),
                    f"Atomic {op} of {t}.",
                )
            )
        out.append(
            pair(
                f"template <class P> {t} twb_atomic_cas_{s}(P p, {t} expected, {t} v)",
                f"return ({t})atomicCAS({cast}, ({wide})expected, ({wide})v);",
                _host(t, "old == expected ? v : old", True),
                "Write `v` if the value is `expected`.",
            )
        )
    return out


def _in_word(t: str, bits: int, step: str) -> str:
    """A loop that changes an element of 8 or 16 bits within its aligned word; `step` is the new value for `old` and `v`."""
    mask = f"{(1 << bits) - 1}u"
    return (
        "unsigned *word = (unsigned *)((uint64_t)p & ~(uint64_t)3), seen, now = *(volatile unsigned *)word; uint32_t shift = ((uint64_t)p & 3) * 8;\n"
        f"{t} old;\ndo {{ seen = now; old = ({t})(seen >> shift); now = atomicCAS(word, seen, (seen & ~({mask} << shift)) | ((unsigned)({step}) & {mask}) << shift); }} "
        "while (now != seen);\nreturn old;"
    )


def _small() -> list[DeviceFunction]:
    """Integers of 8 and 16 bits."""
    out = []
    for s, bits in (("i8", 8), ("u8", 8), ("i16", 16), ("u16", 16)):
        t = C_TYPE[s]
        steps = {"add": f"({t})(old + v)", "and": "old & v", "or": "old | v", "xor": "old ^ v", "exch": "v"}
        steps |= {"min": "v < old ? v : old", "max": "v > old ? v : old"}
        for op, step in steps.items():
            head = f"template <class P> {t} twb_atomic_{op}_{s}(P p, {t} v)"
            out.append(pair(head, _in_word(t, bits, step), _host(t, step, op in ("add", "or", "exch")), f"Atomic {op} of {t}."))
    return out


def _plain() -> list[DeviceFunction]:
    """Reads and writes in one step, in no order with others."""
    out = []
    for s in (*INTEGERS, "f32", "f64", "f16", "bf16"):
        t = f"twb_{s}" if s in ("f16", "bf16") else C_TYPE[s]
        word = "unsigned short" if s in ("f16", "bf16") else t
        there = f"*(volatile {word} *)p"
        look = f"auto *at = ({t} *)p.place(sizeof({t}), TWBE_ATOMIC); {t} v = *at; twbe_look(at, v); return v;"
        store = f"*({t} *)p.place(sizeof({t}), __is_same(P, twb_shared<{t}>) ? TWBE_ATOMIC : TWBE_STORE) = v;"
        read = f"return {there};" if word == t else f"{t} v; v.bits = {there}; return v;"
        write = f"{there} = v;" if word == t else f"{there} = v.bits;"
        out.append(pair(f"template <class P> {t} twb_atomic_load_{s}(P p)", read, look, f"Read {t} in one step."))
        out.append(pair(f"template <class P> void twb_atomic_store_{s}(P p, {t} v)", write, store, f"Write {t} in one step."))
    for s in ("f16", "bf16"):
        t = f"twb_{s}"
        now = f"{t} old; old.bits = seen;"
        loop = f"unsigned short seen, now = *(volatile unsigned short *)p;\ndo {{ seen = now; now = atomicCAS((unsigned short *)p, seen, v.bits); }} while (now != seen);\n{now}\nreturn old;"
        out.append(pair(f"template <class P> {t} twb_atomic_exch_{s}(P p, {t} v)", loop, _host(t, "v"), f"Atomic exchange of {s}."))
    return out


def _floats() -> list[DeviceFunction]:
    out = []
    for s, t, bits in (("f32", "float", "int"), ("f64", "double", "unsigned long long")):
        up, down = ("__float_as_int", "__int_as_float") if s == "f32" else ("(unsigned long long)__double_as_longlong", "__longlong_as_double")
        out.append(
            pair(
                f"template <class P> {t} twb_atomic_add_{s}(P p, {t} v)",
                f"return atomicAdd(({t} *)p, v);",
                _host(t, "old + v"),
                f"Atomic add of {t}.",
            )
        )
        out.append(
            pair(
                f"template <class P> {t} twb_atomic_exch_{s}(P p, {t} v)",
                f"return {down}(atomicExch(({bits} *)p, {up}(v)));",
                _host(t, "v"),
                f"Atomic exchange of {t}.",
            )
        )
        for op, sign in (("min", "<"), ("max", ">")):
            loop = f"{bits} old = *(volatile {bits} *)p, seen;\ndo {{ seen = old; {t} was = {down}(seen); if (!(v {sign} was || (was != was && v == v))) break; old = atomicCAS(({bits} *)p, seen, {up}(v)); }} while (old != seen);\nreturn {down}(old);"
            out.append(
                pair(
                    f"template <class P> {t} twb_atomic_{op}_{s}(P p, {t} v)",
                    loop,
                    _host(t, f"v {sign} old || (old != old && v == v) ? v : old"),
                    f"Atomic {op} of {t}; a number takes the place of a NaN.",
                )
            )
    return out


def _narrow() -> list[DeviceFunction]:
    out = []
    for s in ("f16", "bf16"):
        t, up, down = f"twb_{s}", f"twb_{s}_to_f32", f"twb_f32_to_{s}"
        for op in ("add", "min", "max"):
            takes = f"{up}(v) {'<' if op == 'min' else '>'} {up}(old) || ({up}(old) != {up}(old) && {up}(v) == {up}(v))"
            value = f"{up}(old) + {up}(v)" if op == "add" else f"{takes} ? {up}(v) : {up}(old)"
            loop = f"unsigned short seen, now = *(volatile unsigned short *)p; {t} old;\ndo {{ seen = now; old.bits = seen; now = atomicCAS((unsigned short *)p, seen, {down}({value}).bits); }} while (now != seen);\nreturn old;"
            out.append(
                pair(f"template <class P> {t} twb_atomic_{op}_{s}(P p, {t} v)", loop, _host(t, f"{down}({value})"), f"Atomic {op} of {s}.", up, down)
            )
        packed = f"uint32_t seen, now = *(volatile uint32_t *)p;\ndo {{ seen = now; now = atomicCAS((unsigned *)p, seen, twb_add_{s}x2(seen, v)); }} while (now != seen);\nreturn now;"
        native = f'uint32_t r; asm volatile("atom.add.noftz.{s}x2 %0, [%1], %2;" : "=r"(r) : "l"(p), "r"(v) : "memory"); return r;'
        least = 90 if s == "bf16" else 75
        gpu = f"#if TWB_ARCH >= {least}\n{native}\n#else\n{packed}\n#endif"
        out.append(
            pair(
                f"template <class P> uint32_t twb_atomic_add_{s}x2(P p, uint32_t v)",
                gpu,
                _host("uint32_t", f"twb_add_{s}x2(old, v)"),
                f"Atomic add of a pair of {s}, each for itself.",
                f"twb_add_{s}x2",
            )
        )
    return out


def _vectors() -> list[DeviceFunction]:
    """Two or four float32 at once; from sm_90 on one instruction, each element for itself."""
    out = []
    for n in (2, 4):
        regs = ", ".join(f"%{i + 1}" for i in range(n))
        ins = ", ".join(f'"f"(v.v[{i}])' for i in range(n))
        one = f'asm volatile("red.global.add.v{n}.f32 [%0], {{{regs}}};" :: "l"(__cvta_generic_to_global(p)), {ins} : "memory");'
        gpu = f"#if TWB_ARCH >= 90\n{one}\n#else\nfor (int i = 0; i < {n}; ++i) atomicAdd((float *)p + i, v.v[i]);\n#endif"
        host = f"float *at = (float *)p.place({4 * n}, TWBE_ATOMIC); for (int i = 0; i < {n}; ++i) at[i] += v.v[i];"
        out.append(
            pair(
                f"template <class P> void twb_atomic_add_f32x{n}(P p, twb_vec<float, {n}> v)",
                gpu,
                host,
                f"Atomic add of {n} float32 in global memory, aligned to their size; each for itself.",
            )
        )
    return out


def _ordered() -> list[DeviceFunction]:
    out = []
    for s, ptx, letter in (("i32", "s32", "r"), ("u32", "u32", "r"), ("u64", "u64", "l"), ("f32", "f32", "f")):
        t = "float" if s == "f32" else C_TYPE[s]
        for order in ("relaxed", "acquire"):
            gpu = f'{t} v; asm volatile("ld.{order}.gpu.{ptx} %0, [%1];" : "={letter}"(v) : "l"(p) : "memory"); return v;'
            out.append(
                pair(
                    f"template <class P> {t} twb_load_{order}_{s}(P p)",
                    gpu,
                    f"auto *at = ({t} *)p.place(sizeof({t}), TWBE_LOAD); {t} v = *at; twbe_look(at, v); return v;",
                    f"Read {t}, {order}, for the whole GPU.",
                )
            )
        for order in ("relaxed", "release"):
            gpu = f'asm volatile("st.{order}.gpu.{ptx} [%0], %1;" :: "l"(p), "{letter}"(v) : "memory");'
            out.append(
                pair(
                    f"template <class P> void twb_store_{order}_{s}(P p, {t} v)",
                    gpu,
                    f"*({t} *)p.place(sizeof({t}), TWBE_STORE) = v;",
                    f"Write {t}, {order}, for the whole GPU.",
                )
            )
    return out
