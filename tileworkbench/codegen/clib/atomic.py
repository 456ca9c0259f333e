"""Atomic read-modify-write on one element; each returns the old value. All are sequentially consistent: no weaker order is cheaper on x86."""

from __future__ import annotations

from .function import C_TYPE, INTEGERS, CFunction, function

_ADDABLE = ("f64", "f32", "f16", "bf16")
_BITS = {"f64": "uint64_t", "f32": "uint32_t", "f16": "uint16_t", "bf16": "uint16_t"}
_CAS = """\
$bits old = __atomic_load_n(($bits *)p, __ATOMIC_RELAXED), now;
$t was, next;
do {
    __builtin_memcpy(&was, &old, sizeof was);
    next = $next;
    __builtin_memcpy(&now, &next, sizeof now);
} while (!__atomic_compare_exchange_n(($bits *)p, &old, now, 1, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
return was;"""
_EXCHANGE = """\
$bits b, o;
__builtin_memcpy(&b, &v, sizeof b);
o = __atomic_exchange_n(($bits *)p, b, __ATOMIC_SEQ_CST);
__builtin_memcpy(&v, &o, sizeof v);
return v;"""


def atomic_functions() -> tuple[CFunction, ...]:
    """add max min exch load store for integers and floats, and or xor for integers; `v` has the storage type."""
    return tuple(f for s in INTEGERS for f in _integer(s)) + tuple(f for s in _ADDABLE for f in _float(s))


def _integer(short: str) -> tuple[CFunction, ...]:
    t = {"s": short, "t": C_TYPE[short]}
    simple = {"add": "fetch_add", "and": "fetch_and", "or": "fetch_or", "xor": "fetch_xor", "exch": "exchange_n"}
    out = [function(f"$t twb_atomic_{op}_$s($t *p, $t v)", f"return __atomic_{name}(p, v, __ATOMIC_SEQ_CST);", **t) for op, name in simple.items()]
    for op, sign in (("max", ">"), ("min", "<")):
        loop = (
            "$t old = __atomic_load_n(p, __ATOMIC_SEQ_CST);\n"
            f"while (v {sign} old && !__atomic_compare_exchange_n(p, &old, v, 1, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {{}}\nreturn old;"
        )
        out.append(function(f"$t twb_atomic_{op}_$s($t *p, $t v)", loop, **t))
    out.append(function("$t twb_atomic_load_$s($t *p)", "return __atomic_load_n(p, __ATOMIC_SEQ_CST);", **t))
    out.append(function("void twb_atomic_store_$s($t *p, $t v)", "__atomic_store_n(p, v, __ATOMIC_SEQ_CST);", **t))
    return tuple(out)


def _float(short: str) -> tuple[CFunction, ...]:
    t = {"s": short, "t": C_TYPE[short], "bits": _BITS[short]}
    narrow = short in ("f16", "bf16")
    work = "f32" if narrow else short
    up, down = f"twb_{short}_to_f32", f"twb_f32_to_{short}"
    wrap = (lambda e: f"{down}({e})") if narrow else (lambda e: e)  # two spellings of one step
    was, value = (f"{up}(was)", f"{up}(v)") if narrow else ("was", "v")
    steps = {"add": f"{was} + {value}", "max": f"twb_max_{work}({was}, {value})", "min": f"twb_min_{work}({was}, {value})"}
    out = []
    for op, step in steps.items():
        needs = ((up, down) if narrow else ()) + (() if op == "add" else (f"twb_{op}_{work}",))
        out.append(function(f"$t twb_atomic_{op}_$s($t *p, $t v)", _CAS, *needs, next=wrap(step), **t))
    out.append(function("$t twb_atomic_exch_$s($t *p, $t v)", _EXCHANGE, **t))
    load = "$bits b = __atomic_load_n(($bits *)p, __ATOMIC_SEQ_CST);\n$t v;\n__builtin_memcpy(&v, &b, sizeof v);\nreturn v;"
    store = "$bits b;\n__builtin_memcpy(&b, &v, sizeof b);\n__atomic_store_n(($bits *)p, b, __ATOMIC_SEQ_CST);"
    out.append(function("$t twb_atomic_load_$s($t *p)", load, **t))
    out.append(function("void twb_atomic_store_$s($t *p, $t v)", store, **t))
    return tuple(out)
