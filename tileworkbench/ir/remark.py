"""What a pass has to say about a launch besides what it did to it."""

from __future__ import annotations

from dataclasses import dataclass

from .node import Node


@dataclass(frozen=True, slots=True)
class Remark(Node):
    """One sentence for the author of the kernel, about the line of its span: what was left as it was and why, or what was gained."""

    text: str
