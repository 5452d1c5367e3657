"""What proves that a process is gone: the machine it ran on refuses a connection to where it listened."""

import errno
from typing import Final

_REFUSED: Final = f"[Errno {errno.ECONNREFUSED}]"
_SEVERAL: Final = "Multiple exceptions: "


def is_refusal(error: BaseException | None) -> bool:
    """Whether every address of a host refused. asyncio joins the errors of several addresses into one, which has no number of its own."""
    if isinstance(error, ConnectionRefusedError):
        return True
    words = str(error)
    return isinstance(error, OSError) and words.startswith(_SEVERAL) and words.count(_REFUSED) == words.count("[Errno ")
