"""The periodic work of a broker runs at the intervals of its settings."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from isthmus_broker.core.config.layers import BrokerLayers
from isthmus_broker.core.config.node_config import resolve_node, with_embedded_defaults
from isthmus_broker.edge.assembly.maintenance import Maintenance
from isthmus_broker.edge.replication.manager import ReplicaManager
from isthmus_broker.edge.storage.files import FilePool
from isthmus_broker.edge.storage.filesystem import SYSTEM
from isthmus_broker.edge.storage.log_dir import LogDir
from isthmus_broker.edge.storage.log_manager import LogManager
from isthmus_client.clock import CLOCKS

from tests.edge.storage.logs import NoFailures, append, config

INTERVAL = "log.flush.start.offset.checkpoint.interval.ms"


def maintenance_of(logs: LogManager, settings: dict[str, str]) -> Maintenance:
    node = resolve_node(BrokerLayers(with_embedded_defaults(settings, "unused")))
    return Maintenance(lambda: node, logs, cast(ReplicaManager, SimpleNamespace(check_isr=lambda: None)))


def test_log_start_offsets_are_written_at_their_own_interval(tmp_path: Path) -> None:
    """They were written with the recovery points only, every minute by default."""
    checkpoint = tmp_path / "log-start-offset-checkpoint"

    async def test() -> None:
        logs = LogManager([LogDir(SYSTEM, tmp_path)], FilePool(SYSTEM), lambda _: config(), NoFailures(), CLOCKS)
        await logs.load(1)
        log = logs.create("t", 0, UUID(int=1))
        append(log, [b"x"] * 9)
        log.high_watermark = log.end_offset
        log.raise_start(7)
        maintenance = maintenance_of(logs, {INTERVAL: "1"})
        maintenance.start()
        async with asyncio.timeout(60):
            while "t 0 7" not in checkpoint.read_text():  # noqa: ASYNC110 - another thread writes it
                await asyncio.sleep(0.001)
        maintenance.stop()
        logs.close(1)

    asyncio.run(test())


def test_a_job_with_an_interval_of_0_runs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ran at every turn of the event loop."""
    counts: dict[str, int] = {"checkpoint_starts": 0, "checkpoint": 0}

    def counting(name: str) -> Any:
        def job(_logs: LogManager) -> None:
            counts[name] += 1

        return job

    for name in counts:
        monkeypatch.setattr(LogManager, name, counting(name))

    async def test() -> None:
        logs = LogManager([LogDir(SYSTEM, tmp_path)], FilePool(SYSTEM), lambda _: config(), NoFailures(), CLOCKS)
        maintenance = maintenance_of(logs, {INTERVAL: "0", "log.flush.offset.checkpoint.interval.ms": "1"})
        maintenance.start()
        async with asyncio.timeout(60):
            while counts["checkpoint"] < 5:  # noqa: ASYNC110 - no callback at a job
                await asyncio.sleep(0.001)
        maintenance.stop()

    asyncio.run(test())
    assert counts["checkpoint_starts"] == 1
