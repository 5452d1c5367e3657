"""A refused connection is distinguished from every other failure."""

import asyncio
import socket

import pytest
import uvloop
from isthmus_broker.edge.quorum.connection_refused import is_refusal

from tests.ports import free_ports

REFUSED = "[Errno 111] Connect call failed ('127.0.0.1', 9)"


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (ConnectionRefusedError(111, "Connection refused"), True),
        (OSError(f"Multiple exceptions: {REFUSED}, {REFUSED}"), True),
        (OSError(f"Multiple exceptions: {REFUSED}, [Errno 101] Network is unreachable"), False),
        (OSError(113, "No route to host"), False),
        (TimeoutError(), False),
        (socket.gaierror(-2, "Name or service not known"), False),
        (None, False),
    ],
)
def test_only_a_refusal_by_all_addresses_counts(error: BaseException | None, refused: bool) -> None:
    assert is_refusal(error) is refused


@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])
def test_both_loops_say_it_so(runner: object) -> None:
    async def connect() -> BaseException | None:
        try:
            await asyncio.open_connection("localhost", *free_ports(1))
        except OSError as error:
            return error
        return None

    assert callable(runner)
    assert is_refusal(runner(connect()))
