"""Copies that run beside the threads (cp.async, from sm_80 on), and loads and stores of 8x8 matrices of 16-bit elements by a whole warp."""

from __future__ import annotations

from .function import DeviceFunction, pair

_CACHE = 'if constexpr (BYTES == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(d), "l"(s), "r"(n) : "memory");\n'
_CACHE += 'else asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" :: "r"(d), "l"(s), "n"(BYTES), "r"(n) : "memory");'


def copy_functions() -> tuple[DeviceFunction, ...]:
    """cp.async and its groups; ldmatrix and stmatrix."""
    return (
        pair(
            "template <int BYTES, class D, class S> void twb_cp_async(D to, S from, bool valid = true)",
            'static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async copies 4, 8 or 16 bytes");\n'
            "uint32_t d = (uint32_t)__cvta_generic_to_shared(to), n = valid ? BYTES : 0;\nuint64_t s = (uint64_t)__cvta_generic_to_global(from);\n"
            + _CACHE,
            'static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async copies 4, 8 or 16 bytes");\n'
            "void *d = to.place(BYTES, TWBE_ASYNC), *s = valid ? from.place(BYTES, TWBE_ASYNC) : d;\n"
            "twbe_cp_async(to.at, d, s, BYTES, valid ? BYTES : 0);",
            "Start to copy BYTES (4, 8 or 16) bytes from global to shared memory; zeros if not `valid`, and then `from` is not read.",
            least_arch=80,
        ),
        pair(
            "void twb_cp_async_commit()",
            'asm volatile("cp.async.commit_group;" ::: "memory");',
            "twbe_cp_async_commit();",
            "Close this thread's group of copies.",
            least_arch=80,
        ),
        pair(
            "template <int N> void twb_cp_async_wait()",
            'asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");',
            "twbe_cp_async_wait(N);",
            "Wait until at most the N newest groups of this thread run.",
            least_arch=80,
        ),
        pair(
            "void twb_cp_async_wait_all()",
            'asm volatile("cp.async.wait_all;" ::: "memory");',
            "twbe_cp_async_wait_all();",
            "Wait for all copies of this thread.",
            least_arch=80,
        ),
        *(_matrix("ld", count, trans) for count in (1, 2, 4) for trans in (False, True)),
        *(_matrix("st", count, trans) for count in (1, 2, 4) for trans in (False, True)),
    )


def _matrix(kind: str, count: int, trans: bool) -> DeviceFunction:
    name = f"twb_{kind}matrix_x{count}{'_trans' if trans else ''}"
    op = f"{kind}matrix.sync.aligned.m8n8.x{count}{'.trans' if trans else ''}.shared.b16"
    regs = "{" + ", ".join(f"%{i + (kind == 'st')}" for i in range(count)) + "}"
    if kind == "ld":
        outs = ", ".join(f'"=r"(r[{i}])' for i in range(count))
        gpu = f'asm volatile("{op} {regs}, [%{count}];" : {outs} : "r"((uint32_t)__cvta_generic_to_shared(row)) : "memory");'
        head, says = f"template <class P> void {name}(uint32_t (&r)[{count}], P row)", "Load"
    else:
        ins = ", ".join(f'"r"(r[{i}])' for i in range(count))
        gpu = f'asm volatile("{op} [%0], {regs};" :: "r"((uint32_t)__cvta_generic_to_shared(row)), {ins} : "memory");'
        head, says = f"template <class P> void {name}(P row, const uint32_t (&r)[{count}])", "Store"
    store = kind == "st"
    host = f"twbe_matrix(row.at, row.low, row.high, {'(uint32_t *)' if store else ''}r, {count}, {int(trans)}, {int(store)});"
    what = f"{says} {count} matrices{' transposed' if trans else ''}: lane i gives row i % 8 (16 bytes) of matrix i / 8; register m holds this lane's pair of matrix m."
    return pair(head, gpu, host, what, least_arch=90 if store else 75)
