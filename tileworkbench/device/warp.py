"""What lanes of a warp do together: shuffles, votes, reductions. Every lane of the mask must take part."""

from __future__ import annotations

from .function import DeviceFunction, pair, same

_MASK = "uint32_t mask = 0xffffffffu"
_WIDTH = f"int width = 32, {_MASK}"
_BY_WORDS = """\
static_assert(sizeof(T) <= 8, "a shuffle moves 8 bytes at most");
if constexpr (sizeof(T) == 8) {{
    union {{ T v; uint32_t w[2]; }} u = {{value}}; u.w[0] = {call}(mask, u.w[0], {arg}, width); u.w[1] = {call}(mask, u.w[1], {arg}, width); return u.v;
}} else {{
    union U {{ uint32_t w; T v; }} u; u.w = 0; u.v = value; u.w = {call}(mask, u.w, {arg}, width); return u.v;
}}"""
_BY_RUNTIME = "uint64_t w = 0; __builtin_memcpy(&w, &value, sizeof(T)); w = twbe_shuffle({mode}, w, {arg}, width, mask);\nT r; __builtin_memcpy(&r, &w, sizeof(T)); return r;"


def _shuffle(name: str, call: str, mode: int, arg: str, says: str) -> DeviceFunction:
    head = f"template <class T> T {name}(T value, int {arg}, {_WIDTH})"
    return pair(head, _BY_WORDS.format(call=call, arg=arg), _BY_RUNTIME.format(mode=mode, arg=arg), says)


def _reduction(op: str, mode: int, signed: bool) -> DeviceFunction:
    kind, number = ("int32_t", mode + 16) if signed else ("uint32_t", mode)
    name = f"twb_redux_{op}_{'i32' if signed else 'u32'}"
    says = f"The {op} of all lanes' values, in every lane."
    return pair(
        f"{kind} {name}({kind} value, {_MASK})",
        f"return __reduce_{op}_sync(mask, value);",
        f"return ({kind})twbe_vote({number}, (uint32_t)value, mask);",
        says,
        least_arch=80,
    )


# pairs of lanes trade words that differ in one bit of their number, then in the other
_QUAD_TURN = """\
const bool odd = twb_lane() & 1, high = twb_lane() & 2;
for (int i = 0; i < 4; i += 2) {
    const uint32_t got = twb_shfl_xor(odd ? w[i] : w[i + 1], 1);
    w[i] = odd ? got : w[i];
    w[i + 1] = odd ? w[i + 1] : got;
}
for (int i = 0; i < 2; i += 1) {
    const uint32_t got = twb_shfl_xor(high ? w[i] : w[i + 2], 2);
    w[i] = high ? got : w[i];
    w[i + 2] = high ? w[i + 2] : got;
}"""


def warp_functions() -> tuple[DeviceFunction, ...]:
    """Shuffles of up to 8 bytes, votes, match, reductions of integers, and the one lane that does what one lane must."""
    return (
        _shuffle("twb_shfl", "__shfl_sync", 0, "lane", "The value of lane `lane` (of this lane's group of `width`)."),
        _shuffle("twb_shfl_up", "__shfl_up_sync", 1, "delta", "The value of the lane `delta` below; the own one at the edge."),
        _shuffle("twb_shfl_down", "__shfl_down_sync", 2, "delta", "The value of the lane `delta` above; the own one at the edge."),
        _shuffle("twb_shfl_xor", "__shfl_xor_sync", 3, "bits", "The value of the lane whose number differs in `bits`."),
        same(
            "void twb_quad_turn(uint32_t (&w)[4])",
            _QUAD_TURN,
            "Four lanes' four words each change places: word i of lane j becomes word j of lane i.",
            "twb_lane",
            "twb_shfl_xor",
        ),
        pair(
            f"uint32_t twb_ballot(bool holds, {_MASK})",
            "return __ballot_sync(mask, holds);",
            "return (uint32_t)twbe_vote(0, holds, mask);",
            "One bit for each lane where `holds`.",
        ),
        pair(
            f"bool twb_any(bool holds, {_MASK})",
            "return __any_sync(mask, holds);",
            "return twbe_vote(1, holds, mask) != 0;",
            "Whether it holds in some lane.",
        ),
        pair(
            f"bool twb_all(bool holds, {_MASK})",
            "return __all_sync(mask, holds);",
            "return twbe_vote(2, holds, mask) != 0;",
            "Whether it holds in all lanes.",
        ),
        pair(
            f"uint32_t twb_match_any(uint64_t value, {_MASK})",
            "return __match_any_sync(mask, value);",
            "return (uint32_t)twbe_vote(3, value, mask);",
            "The lanes whose value is this lane's.",
        ),
        *(_reduction(op, mode, signed) for op, mode in (("add", 4), ("min", 5), ("max", 6)) for signed in (False, True)),
        *(_reduction(op, mode, False) for op, mode in (("and", 7), ("or", 8), ("xor", 9))),
        pair(
            "bool twb_elect()",
            'uint32_t is;\nasm volatile("{\\n.reg .pred p;\\nelect.sync _|p, 0xffffffff;\\nselp.u32 %0, 1, 0, p;\\n}" : "=r"(is));\nreturn is != 0;',
            "twbe_sync_warp(0xffffffffu);\nreturn twb_me->lane == 0;",
            "True in one lane of a whole warp.",
            least_arch=90,
        ),
        pair("uint32_t twb_active_mask()", "return __activemask();", "return 0xffffffffu;", "The lanes that run together (in the emulator: all)."),
    )
