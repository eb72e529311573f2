"""Lines of the engine for ``logging``.

Threads of the engine never call Python: what they tell waits until a call of the package drains it.
"""

from __future__ import annotations

import logging

from shardwright import _core

logger = logging.getLogger("shardwright")
logger.addHandler(logging.NullHandler())


def drain() -> None:
    """Hand over what the engine has told since the last call."""
    for level, source, text in _core.take_log():
        logging.getLogger(source.replace("::", ".")).log(level, "%s", text)
