"""Memory that was freed goes back to the system: the allocator keeps it otherwise, and a node that was busy once would look so for ever."""

import ctypes
from contextlib import suppress


def give_back_memory() -> None:
    """Where the C library is glibc, and in about a millisecond; elsewhere the allocator does as it likes."""
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
