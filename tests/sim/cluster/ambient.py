"""What processes take from the operating system without being given it: randomness, threads, sockets and the wall clock.

For the time of a life these are replaced by simulated ones, so that a seed is one life. Everything else a node is given: its configuration,
its clocks and its file system. The source of a link is outside of the simulation: the broker is given its description of the topic.
"""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

import isthmus_broker.edge.transport.listener as listener
import isthmus_client.clock
from isthmus_broker.core.metadata.links import Link
from isthmus_broker.edge.requests import api_20006_create_mirror
from isthmus_wire.extensions.mirrors import SourceTopic

from tests.sim.cluster.loop import SimLoop
from tests.sim.cluster.mirrored import SOURCE_TOPIC
from tests.sim.cluster.net import SimSocket
from tests.sim.cluster.process import current


class _Clock:
    """In place of the module `time` for clients: the clocks of the current process."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def time_ns(self) -> int:
        return current().wall_ms() * 1_000_000

    def monotonic_ns(self) -> int:
        return int(self._loop.time() * 1e9)


@contextmanager
def simulated(loop: SimLoop, source: Random) -> Iterator[None]:
    """Replace the operating system below all processes of one life."""
    drawn = Random(source.getrandbits(64))
    seed = Random.seed

    def reseed(self: Random, a: Any = None, version: int = 2) -> None:
        seed(self, drawn.getrandbits(64) if a is None else a, version)

    def run(executor: ThreadPoolExecutor, function: Callable[..., Any], /, *args: Any) -> Any:
        return loop.run_in_executor(executor, function, *args)

    def shut_down(executor: ThreadPoolExecutor, **_options: Any) -> None:
        loop.threads.shut_down(executor)

    async def described(_link: Link, _topic: str, _this_cluster: str) -> SourceTopic:
        return SOURCE_TOPIC

    with (
        patch.object(api_20006_create_mirror, "source_topic", described),
        patch.object(os, "urandom", drawn.randbytes),
        patch.object(random, "_urandom", drawn.randbytes),
        patch.object(Random, "seed", reseed),
        patch.object(socket, "socket", SimSocket),
        patch.object(SimSocket, "network", loop.net, create=True),
        patch.object(ThreadPoolExecutor, "submit", run),
        patch.object(ThreadPoolExecutor, "shutdown", shut_down),
        patch.object(isthmus_client.clock, "time", _Clock(loop)),
        patch.object(listener, "give_back_memory", lambda: None),
    ):
        state = random.getstate()
        random.seed(drawn.getrandbits(64))
        try:
            yield
        finally:
            random.setstate(state)
