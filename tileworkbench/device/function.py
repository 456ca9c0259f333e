"""What a device function is: one head, a body for the GPU, a body for the emulator.

Bodies may use the types of both preludes: `twb_global<T>` and `twb_shared<T>` (pointers), `twb_vec<T, N>` (registers), `twb_f16` and its like
(bits of narrow floats), `twb_tensor_map` (128 bytes).
"""

from __future__ import annotations

from dataclasses import dataclass
from string import Template

GPU, EMULATOR = "gpu", "emulator"


@dataclass(frozen=True, slots=True)
class DeviceFunction:
    """One function. `head` is "[template <...>] result name(parameters)"; `least_arch` counts as 75, 80, 89, 90; `needs` names functions it calls.

    `says` is one sentence about what it does; `gpu_before` stands in front of it on a GPU: a variable that it works on.
    """

    head: str
    gpu: str
    emulator: str
    says: str
    least_arch: int = 75
    needs: tuple[str, ...] = ()
    gpu_before: str = ""

    @property
    def name(self) -> str:
        """What a kernel calls."""
        before = self.head.partition("(")[0] if not self.head.startswith("template") else _after_template(self.head).partition("(")[0]
        return before.split()[-1].lstrip("*&")

    def text(self, where: str) -> str:
        """The definition for `where`: "gpu" or "emulator"."""
        body = (self.gpu if where == GPU else self.emulator).strip()
        template, rest = ("", self.head) if not self.head.startswith("template") else _split_template(self.head)
        inner = f" {body} " if "\n" not in body else "\n    " + body.replace("\n", "\n    ") + "\n"
        before = f"{self.gpu_before}\n" if self.gpu_before and where == GPU else ""
        return f"{before}{template}TWB_DEVICE {rest} {{{inner}}}\n"


def _split_template(head: str) -> tuple[str, str]:
    depth = 0
    for i, c in enumerate(head):
        depth += (c == "<") - (c == ">")
        if c == ">" and depth == 0:
            return head[: i + 1] + " ", head[i + 1 :].strip()
    raise ValueError(head)


def _after_template(head: str) -> str:
    return _split_template(head)[1]


def same(head: str, body: str, says: str, *needs: str, least_arch: int = 75, **values: str) -> DeviceFunction:
    """A function whose text is the same on both sides; `$name` is replaced from `values`."""
    return pair(head, body, body, says, *needs, least_arch=least_arch, **values)


def pair(head: str, gpu: str, emulator: str, says: str, *needs: str, least_arch: int = 75, **values: str) -> DeviceFunction:
    """A function with a text for each side; `$name` is replaced from `values`."""
    return DeviceFunction(_fill(head, values), _fill(gpu, values), _fill(emulator, values), _fill(says, values), least_arch, needs)


def _fill(text: str, values: dict[str, str]) -> str:
    return Template(text).substitute(values) if values and "$" in text else text
