"""One machine of the cluster: its disk, its clocks, and the node that runs on it, from start to start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from traceback import format_exception
from typing import Final
from uuid import UUID

from isthmus_broker.core.config.layers import BrokerLayers
from isthmus_broker.core.config.node_config import resolve_node
from isthmus_broker.core.metadata.history import Published
from isthmus_broker.core.metadata.image import EMPTY_IMAGE, ClusterImage
from isthmus_broker.edge.assembly.format import format_directories
from isthmus_broker.edge.assembly.node import Node
from isthmus_model.clocks import Clocks, MonotonicMs, WallMs

from tests.sim.cluster.loop import SimLoop
from tests.sim.cluster.process import Process
from tests.sim.power.disk import SimDisk
from tests.sim.world import Violation

DATA: Final = Path("/data")
BROKER_PORT: Final = 9092
CONTROLLER_PORT: Final = 9093
_EPOCH_MS: Final = 1_700_000_000_000


class _ObservedNode(Node):
    """A node that shows all metadata that it applies."""

    on_metadata: Callable[[ClusterImage], None]

    def _published(self, published: Published) -> None:
        super()._published(published)
        self.on_metadata(published.image)


class Machine:
    """A node, and what survives it."""

    def __init__(self, node_id: int, settings: Mapping[str, str], loop: SimLoop, random: Random) -> None:
        self.node_id = node_id
        self.host = f"n{node_id}"
        self.config = resolve_node(BrokerLayers(settings))
        self.disk = SimDisk(Random(random.getrandbits(64)), self.wall_ms)
        self.process: Process | None = None
        self.node: Node | None = None
        self.is_serving = False
        self.is_held_down = False
        """Whether it stays down for now."""
        self.wall_offset_ms = 0
        self.starts = 0
        self.on_metadata: Callable[[ClusterImage], None] = lambda _image: None
        """Called with all metadata that the node applies."""
        self.may_fail = False
        """Whether its disk was full or failed: the node may stop, or refuse to start."""
        self._metadata = (-1, EMPTY_IMAGE)
        self._loop = loop
        self._stopping = asyncio.Event()

    # -- clocks --------------------------------------------------------------------------------------------------------------

    def wall_ms(self) -> int:
        """The machine's wall clock, which faults set."""
        return _EPOCH_MS + self.wall_offset_ms + int(self._loop.time() * 1000)

    def _clocks(self) -> Clocks:
        return Clocks(lambda: WallMs(self.wall_ms()), lambda: MonotonicMs(int(self._loop.time() * 1000)))

    # -- life ----------------------------------------------------------------------------------------------------------------

    def format(self, cluster_id: str) -> None:
        """Format its log directory, as `isthmus storage format` does."""
        directory_id = UUID(int=(1 << 100) + self.node_id)
        files = self.disk.start()
        files.make_directory(DATA, exist_ok=False)
        files.sync_path(DATA.parent)
        format_directories(files, [DATA], self.node_id, cluster_id, {DATA: directory_id})
        self.disk.kill()

    @property
    def is_running(self) -> bool:
        return self.process is not None

    def start(self) -> None:
        """Start the node."""
        assert self.process is None
        self.starts += 1
        self._loop.net.host_up(self.host)
        process = self.process = Process(f"node {self.node_id}, life {self.starts}", self.host, self.wall_ms)
        self._stopping = asyncio.Event()
        self._loop.spawn(process, self._serve(process))

    def stop(self) -> None:
        """SIGTERM: a controlled shutdown."""
        self._stopping.set()

    def kill(self) -> None:
        """SIGKILL: nothing of the process runs any more, its host closes its connections, and its page cache stays."""
        self.disk.kill()
        self._ended(silent=False)

    def cut_power(self) -> None:
        """The host vanishes without a word, and with it what was not synced."""
        self.disk.cut_power()
        self._loop.net.host_down(self.host)
        self._ended(silent=True)

    @property
    def metadata(self) -> tuple[int, ClusterImage]:
        """The newest metadata that the node has applied, in this life or the last, and its offset."""
        if self.node is not None:
            self._metadata = self.node._publisher.offset, self.node._services.image
        return self._metadata

    def _ended(self, *, silent: bool) -> None:
        self._metadata = self.metadata
        process, self.process, self.node = self.process, None, None
        self.is_serving = False
        if process is not None:
            process.is_alive = False
            self._loop.net.process_died(process, silent=silent)

    async def _serve(self, process: Process) -> None:
        """What `isthmus node` does."""
        try:
            node = self.node = _ObservedNode(self.config, self._clocks(), self.disk.start())
            node.on_metadata = self.on_metadata
            fault = asyncio.create_task(node.failed())
            stop = asyncio.create_task(self._stopping.wait())
            start = asyncio.create_task(node.start())
            await asyncio.wait((start, fault, stop), return_when=asyncio.FIRST_COMPLETED)
            if start.done():
                start.result()
                self.is_serving = True
                await asyncio.wait((fault, stop), return_when=asyncio.FIRST_COMPLETED)
                self.is_serving = False
                await node.stop()
            problem: BaseException | None = node.fault
        except Exception as error:  # noqa: BLE001 - whatever it is, `isthmus node` would exit
            problem = error
        if problem is not None and not self.may_fail:
            self._loop.fault = Violation(f"failed-node: {process}: {''.join(format_exception(problem))}")
        if self.process is process:
            self.kill()
