"""The operations of a simulated disk, and how they fail."""

import os
from typing import Literal

Operation = Literal["read", "write", "sync", "entry"]
"""`entry` is a change of a directory: create, rename, remove."""


class ProcessDied(BaseException):
    """The process was killed, or its machine lost power. No handler of the product catches it."""


def os_error(number: int, path: str) -> OSError:
    """The exception that the operating system raises."""
    return OSError(number, os.strerror(number), path)
