"""Names of TileLang's pass configurations.

A configuration steers passes of a GPU compiler. Every name is accepted; those that mean nothing here are listed as ignored on the kernel.
TileLang spells each one twice, as an enum member and as a string, and the two follow one rule:

>>> PassConfigKey.TL_DISABLE_TMA_LOWER == "tl.disable_tma_lower"
True
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Iterable

FAST_ACCUMULATE = "tl.fast_accumulate"  # of ours: sums of float8 stay in the matrix unit, which keeps 14 bits of them (`transform/promote_sums.py`)
MEANT = frozenset({FAST_ACCUMULATE})


def is_asked(hints: Iterable[tuple[str, str]], key: str) -> bool:
    """Whether `T.annotate_pass_configs`, as a launch records it, or a compilation, as a kernel does, sets `key`.

    >>> hint = ("annotate_pass_configs", "{'tl.fast_accumulate': True}")
    >>> is_asked([hint], FAST_ACCUMULATE), is_asked([(FAST_ACCUMULATE, "False")], FAST_ACCUMULATE)
    (True, False)
    """
    for hint, text in hints:
        if hint == key or hint == "annotate_pass_configs" and key in text:
            value = literal_eval(text)
            if value.get(key) if isinstance(value, dict) else value:
                return True
    return False


class _ByName(type):
    """`PassConfigKey.TL_X_Y` is the key `tl.x_y`, for any name: TileLang adds some with every release."""

    def __getattr__(cls, name: str) -> PassConfigKey:
        family, _, rest = name.partition("_")
        if not rest or name != name.upper() or name.startswith("_"):
            raise AttributeError(f"type object 'PassConfigKey' has no attribute {name!r}")
        return PassConfigKey(f"{family}.{rest}".lower())


class PassConfigKey(str, metaclass=_ByName):
    """A pass configuration's name; it is the string that TileLang uses."""

    __slots__ = ()

    @property
    def value(self) -> str:
        """The plain string."""
        return str(self)
