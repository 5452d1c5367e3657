"""Recognises refused connections, which prove that a process is dead: its machine refuses a connection to its port."""

import errno
from typing import Final

_REFUSED: Final = f"[Errno {errno.ECONNREFUSED}]"
_SEVERAL: Final = "Multiple exceptions: "


def is_refusal(error: BaseException | None) -> bool:
    """Whether every address of a host refused. asyncio joins the errors of several addresses into one, which has no errno of its own."""
    if isinstance(error, ConnectionRefusedError):
        return True
    text = str(error)
    return isinstance(error, OSError) and text.startswith(_SEVERAL) and text.count(_REFUSED) == text.count("[Errno ")
