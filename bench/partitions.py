"""`python -m bench.partitions`: three controllers of each system, 100,000 partitions, and the active controller killed.

The brokers are played by this process: they register and send heartbeats as real ones do, and hold no logs, so that what is measured is the
controllers' work. Failover is from SIGKILL to the first topic that the next controller has created.
"""

import argparse
import asyncio
import statistics
import time
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from isthmus_broker.core.metadata.features import SUPPORTED
from isthmus_client.connection import Connection
from isthmus_client.errors import ClientError
from isthmus_model.endpoints import Endpoint
from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode, WireError
from isthmus_wire.messages import millis
from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest
from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest, Feature, Listener
from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest

from bench import report
from bench.__main__ import order, say, scratch
from bench.clusters import NODES, ThreeNodes
from bench.process import resident_mb
from bench.scenarios import Figure
from tests.kafka import CLUSTER_ID

_TOPICS: Final = 100
_PARTITIONS: Final = 1_000
_PER_REQUEST: Final = 5
_BROKERS: Final = (101, 102, 103)
_HEARTBEAT_SECONDS: Final = 1.0
_REQUEST_SECONDS: Final = 120.0
_ATTEMPT_SECONDS: Final = 0.25
_RETRY_SECONDS: Final = 0.02
_FAR_AHEAD: Final = 1 << 60
_PEERS_FEATURES: Final = {"transaction.version": (0, 2), "share.version": (0, 1), "streams.version": (0, 1)}
"""What a new cluster of Apache Kafka uses beside ours."""
_SCENARIO: Final = f"3 controllers, {_TOPICS * _PARTITIONS:,} partitions, RF 3"
_FIGURES: Final = {
    "created": Figure("partitions/s", more_is_better=True),
    "failover, median": Figure("s"),
    "failover, worst": Figure("s"),
    "resident, active controller": Figure("MB"),
}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.partitions", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--failovers", type=int, default=3)
    arguments = parser.parse_args()
    rows, facts = report.Rows(), report.conditions(arguments.rounds)
    with scratch() as directory:
        for number in range(arguments.rounds):
            for system in order(number):
                figures = _measure(system, directory / f"{number}-{system}", arguments.failovers)
                say(number, _SCENARIO, system, figures)
                rows.add(_SCENARIO, _FIGURES, system, figures)
    print(report.write(rows.complete(), facts, "partitions").read_text())


def _measure(system: str, directory: Path, failovers: int) -> dict[str, float]:
    cluster = ThreeNodes(system, directory, roles="controller")
    for broker in cluster.brokers.values():
        broker.start()
    try:
        for broker in cluster.brokers.values():
            broker.await_serving()
        return asyncio.run(_Play(cluster).run(failovers))
    finally:
        cluster.stop()


class _Play:
    """The brokers' part, and the clients'."""

    def __init__(self, cluster: ThreeNodes) -> None:
        self._cluster = cluster
        self._active = NODES[0]
        self._connections: dict[int, Connection] = {}
        self._epochs: dict[int, int] = {}

    async def run(self, failovers: int) -> dict[str, float]:
        # The advertised port must accept connections: a controller of Isthmus checks brokers whose connections have closed.
        server = await asyncio.start_server(_listen, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        for broker_id in _BROKERS:
            registered = await self._request(ApiKey.BROKER_REGISTRATION, _registration(broker_id, port))
            if registered.error_code is not ErrorCode.none:
                raise RuntimeError(f"{self._cluster.name} does not register a broker: {registered.error_code.name}")
            self._epochs[broker_id] = registered.broker_epoch
            while await self._beat(broker_id):  # noqa: ASYNC110 - the controller is polled, there is no event
                await asyncio.sleep(_RETRY_SECONDS)
        hearts = [asyncio.create_task(self._live(broker_id)) for broker_id in _BROKERS]
        started = time.perf_counter()
        for first in range(0, _TOPICS, _PER_REQUEST):
            await self._create([f"topic-{number}" for number in range(first, first + _PER_REQUEST)], _PARTITIONS)
        created = _TOPICS * _PARTITIONS / (time.perf_counter() - started)
        resident = resident_mb(self._cluster.brokers[self._active].pid)
        seconds = [await self._fail_over(number) for number in range(failovers)]
        for heart in hearts:
            heart.cancel()
        server.close()
        return {
            "created": created,
            "failover, median": statistics.median(seconds),
            "failover, worst": max(seconds),
            "resident, active controller": resident,
        }

    async def _fail_over(self, number: int) -> float:
        killed = self._active
        await asyncio.sleep(2 * _HEARTBEAT_SECONDS)
        started = time.perf_counter()
        self._cluster.brokers[killed].kill()
        self._drop(killed)
        await self._create([f"after-{number}"], 1)
        seconds = time.perf_counter() - started
        self._cluster.brokers[killed].start()
        await asyncio.to_thread(self._cluster.brokers[killed].await_serving)
        await asyncio.sleep(5 * _HEARTBEAT_SECONDS)
        return seconds

    async def _create(self, names: list[str], partitions: int) -> None:
        topics = tuple(
            entity(
                CreatableTopic, name=name, num_partitions=partitions, replication_factor=3, assignments=(), configs=()
            )
            for name in names
        )
        request = CreateTopicsRequest(topics=topics, timeout=millis(60_000), validate_only=False)
        response = await self._request(ApiKey.CREATE_TOPICS, request)
        for topic in response.topics:
            if topic.error_code not in (ErrorCode.none, ErrorCode.topic_already_exists):
                raise RuntimeError(f"{topic.name}: {topic.error_code.name} {topic.error_message}")

    async def _live(self, broker_id: int) -> None:
        while True:
            await asyncio.sleep(_HEARTBEAT_SECONDS)
            await self._beat(broker_id)

    async def _beat(self, broker_id: int) -> bool:
        """Whether the broker is still fenced."""
        request = entity(
            BrokerHeartbeatRequest,
            broker_id=broker_id,
            broker_epoch=self._epochs[broker_id],
            current_metadata_offset=_FAR_AHEAD,
            want_fence=False,
            want_shut_down=False,
        )
        response = await self._request(ApiKey.BROKER_HEARTBEAT, request)
        return bool(response.is_fenced) or response.error_code is not ErrorCode.none

    # -- finding the active controller ---------------------------------------------------------------------------------------

    async def _request(self, api: ApiKey, request: Any) -> Any:
        """Send a request to the controllers in turn until the active one responds."""
        deadline = time.monotonic() + _REQUEST_SECONDS
        while True:
            node = self._active
            try:
                async with asyncio.timeout(_REQUEST_SECONDS if api is ApiKey.CREATE_TOPICS else _ATTEMPT_SECONDS * 8):
                    response = await (await self._connection(node)).request(api, request, seconds=_REQUEST_SECONDS)
                if not _is_elsewhere(response):
                    return response
            except (ClientError, WireError, OSError, TimeoutError):
                self._drop(node)
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self._cluster.name}: no active controller")
            if self._active == node:
                self._active = NODES[(NODES.index(node) + 1) % len(NODES)]
            await asyncio.sleep(_RETRY_SECONDS)

    async def _connection(self, node: int) -> Connection:
        known = self._connections.get(node)
        if known is None or known.closed:
            place = Endpoint("127.0.0.1", self._cluster.controller_port(node))
            known = self._connections[node] = await Connection.open(place, "bench")
        return known

    def _drop(self, node: int) -> None:
        connection = self._connections.pop(node, None)
        if connection is not None:
            connection.close()


def _is_elsewhere(response: Any) -> bool:
    codes = [getattr(response, "error_code", ErrorCode.none), *(t.error_code for t in getattr(response, "topics", ()))]
    return ErrorCode.not_controller in codes or ErrorCode.request_timed_out in codes


async def _listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


def _registration(broker_id: int, port: int) -> BrokerRegistrationRequest:
    features = tuple(
        entity(Feature, name=name, min_supported_version=lowest, max_supported_version=highest)
        for name, (lowest, highest) in sorted({**_PEERS_FEATURES, **SUPPORTED}.items())
    )
    listener = entity(Listener, name="PLAINTEXT", host="127.0.0.1", port=port, security_protocol=0)
    return entity(
        BrokerRegistrationRequest,
        broker_id=broker_id,
        cluster_id=CLUSTER_ID,
        incarnation_id=uuid4(),
        listeners=(listener,),
        features=features,
        rack=None,
        is_migrating_zk_broker=False,
        log_dirs=(uuid4(),),
        previous_broker_epoch=-1,
    )


if __name__ == "__main__":
    main()
