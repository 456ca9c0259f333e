"""One-line notices to the user, through the logger "tileworkbench".

A notice says once what the user should know but need not act on: no compiler was found, the cache folder cannot be written.
"""

from __future__ import annotations

import logging

LOGGER = logging.getLogger("tileworkbench")
_said: set[str] = set()


def notice_once(text: str) -> None:
    """Log `text` as a warning, the first time it comes up in this process."""
    if text not in _said:
        _said.add(text)
        LOGGER.warning("tileworkbench: %s", text)


def set_log_level(level: int | str) -> None:
    """Show messages of at least `level`: a number or a name of the standard logging module ("DEBUG", "INFO", "WARNING", ...)."""
    LOGGER.setLevel(level.upper() if isinstance(level, str) else level)
