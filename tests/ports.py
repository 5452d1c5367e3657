"""Free ports for test processes that run in parallel. The system does not use ports of this range for outgoing connections."""

import socket
from collections.abc import Iterable
from contextlib import ExitStack
from functools import cache
from typing import Final

_HOST: Final = "127.0.0.1"
_LOWEST: Final = 10_000
_HIGHEST: Final = 32_000
_BLOCK: Final = 2_000
"""Ports of one process."""


class _Block:
    """The ports of this process for as long as it lives. They are taken in turn, so that those of a stopped node are not reused soon."""

    def __init__(self) -> None:
        self._first, self._claim = _claim()
        self._next = self._first

    def take(self, count: int) -> list[int]:
        """Successive ports that are free now."""
        for _ in range(_BLOCK):
            if self._next + count > self._first + _BLOCK:
                self._next = self._first
            ports = list(range(self._next, self._next + count))
            if _are_free(ports):
                self._next += count
                return ports
            self._next += 1
        raise AssertionError(f"of the {_BLOCK} ports from {self._first} on, no {count} in a row are free")


def free_ports(count: int) -> list[int]:
    """Successive ports that are free now, and that no other test process takes."""
    return _block().take(count)


@cache
def _block() -> _Block:
    return _Block()


def _claim() -> tuple[int, socket.socket]:
    """The first port of a block that no other process has claimed, and the claim: an abstract socket, which ends with the process."""
    for first in range(_LOWEST, _HIGHEST - _BLOCK + 1, _BLOCK):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0isthmus-test-ports-{first}")
        except OSError:
            claim.close()
            continue
        return first, claim
    raise AssertionError("other test processes have claimed all ports")


def _are_free(ports: Iterable[int]) -> bool:
    with ExitStack() as opened:
        for port in ports:
            probe = opened.enter_context(socket.socket())
            # As servers do: connections that were closed a moment ago do not matter.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((_HOST, port))
            except OSError:
                return False
    return True
