"""Returns freed memory to the system. Otherwise the allocator retains it, and a node that was busy once would look so forever."""

from contextlib import suppress


def give_back_memory() -> None:
    """Trim the heap, in about a millisecond, if the C library is glibc. Other allocators decide themselves."""
    import ctypes  # 0.7 MB that a node does not need before its first clients have gone

    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
