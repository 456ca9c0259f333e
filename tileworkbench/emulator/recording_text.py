"""Kernel text that also says how far it is: turns of its loops, and how many instructions it took, for a run that is written down.

    for (int32_t ko = 0; ko < 8; ko += 1) {        ->   for (int32_t ko = 0; ko < 8; ko += 1) { twbe_step(0, (int64_t)ko);
    acc[r] = acc[r] * fade[r] + here[r];           ->   acc[r] = acc[r] * fade[r] + here[r]; twb_work(1);

An instruction is an operator outside of an index, or a call of the device library. A multiplication and an addition in one statement are one, as a
GPU does them; a division is eight. Loops that the GPU's compiler unrolls are not counted as turns. What the count cannot know is what that compiler
makes of addresses and moves: so it is an estimate, of this program's own statements as often as they ran.

>>> instructions("x = a * b + c;"), instructions("p[i * 4 + 1] = twb_max_f32(q[i], s * t);"), instructions("const float y = 1.0f / x;")
(1, 2, 8)
>>> instructions("twb_tma_load_2d(to + slot * 8192, &A_map0, full + slot, ko * 64, by * 128);")
1
"""

from __future__ import annotations

import re

# Calls whose arguments are addresses, descriptors and registers: one instruction, whatever stands in them; and calls that are none.
_ONE = re.compile(r"twb_(?:tma|bulk|mbarrier|wgmma|mma|ldmatrix|stmatrix|cp_async|read|write|atomic|bar_|sync|turn|prefetch)\w*$")
_NONE = re.compile(r"twb_(?:keep|computed|tile|registers|pointer|shared_address|same_bits|fence\w*|grid\w*|set_max\w*|warp|lane|thread\w*|block\w*)$")
_CALL = re.compile(r"\b(twb_\w+)\s*(?:<[^<>()]*>)?\s*\(")
_OPERATOR = re.compile(r"<<|>>|&&|\|\||[<>=!]=|(?<![eE])[+\-](?!=)|[*/%<>?&|^]")
_SIGN = re.compile(r"(^|[(,=?:*/+\-<>&|]|\breturn)\s*[-&*+]")
_LOOP = re.compile(r"for \((?:const )?\w+ (\w+) = .*\{$")
_NOT_A_STATEMENT = ("return", "break", "continue", "#", "//", "/*", "}", "alignas", "TWB_")
DIVISION = 8  # instructions of a float's division, beside the reciprocal


def recorded(text: str) -> tuple[str, tuple[str, ...]]:
    """`text` with the calls, and for each loop that takes turns the name of its variable ("" for while)."""
    out: list[str] = []
    loops: list[str] = []
    inside: list[tuple[int, int]] = []  # of loops that take turns: number, and how deep their bodies stand
    is_kernel, is_unrolled, depth = False, False, 0
    for line in text.split("\n"):
        code, known = line.strip(), len(loops)
        is_kernel = is_kernel or "__global__" in code
        if is_kernel:
            depth += line.count("{") - line.count("}")
            line, is_unrolled = _with_calls(line, code, is_unrolled, loops), code == "#pragma unroll"
            if len(loops) > known:
                inside.append((known, depth))
            elif inside and depth < inside[-1][1]:
                line += f" twbe_step({-1 - inside.pop()[0]}, 0);"
            is_kernel = depth > 0 or "__global__" in code and not code.endswith("}")
        out.append(line)
    return "\n".join(out), tuple(loops)


def _with_calls(line: str, code: str, is_unrolled: bool, loops: list[str]) -> str:
    if (loop := _LOOP.match(code)) is not None or code.startswith("while (") and code.endswith("{"):
        if is_unrolled:
            return line
        loops.append(loop[1] if loop is not None else "")
        return f"{line} twbe_step({len(loops) - 1}, {f'(int64_t){loop[1]}' if loop is not None else -1});"
    if not code.endswith(";") or code.startswith(_NOT_A_STATEMENT):
        return line
    count = instructions(code)
    return f"{line} twb_work({count});" if count else line


def instructions(code: str) -> int:
    """About how many instructions a thread needs for one statement."""
    calls, code = _without_calls(_without_indices(code))
    code = _SIGN.sub(r"\1 ", re.sub(r"\((?:u?int\d+_t|float|double|bool|const \w+|twb_\w+)\)", "", code))
    code = re.sub(r"^(?:const )?[\w<>, ]+?\s(\w+) =", r"\1 =", code)
    found = _OPERATOR.findall(code.replace("->", "."))
    products, sums = found.count("*"), found.count("+") + found.count("-")
    floats = found.count("/") if re.search(r"\d\.\d|\bf\b|f\W", code) else 0
    return calls + max(products, sums) + sum(f not in "*+-" for f in found) + (DIVISION - 1) * floats


def _without_indices(code: str) -> str:
    while (shorter := re.sub(r"\[[^\[\]]*\]", "", code)) != code:
        code = shorter
    return code


def _without_calls(code: str) -> tuple[int, str]:
    """How many instructions the device library's calls are, and the rest of the statement with their arguments, where those compute."""
    count, at = 0, 0
    while (match := _CALL.search(code, at)) is not None:
        end = _closing(code, match.end())
        inside = code[match.end() : end]
        if _ONE.match(match[1]) or _NONE.match(match[1]):
            inside = ""
        count += not _NONE.match(match[1])
        code = f"{code[: match.start()]} ({inside}) {code[end + 1 :]}"
        at = match.start() + 2
    return count, code


def _closing(code: str, start: int) -> int:
    """Where the parenthesis that was opened before `start` closes."""
    depth = 1
    for at in range(start, len(code)):
        depth += (code[at] == "(") - (code[at] == ")")
        if not depth:
            return at
    return len(code)
