"""A client of one cluster: its metadata, and the one place that sends requests to the right broker and retries them.

    async with Client(parse_bootstrap("127.0.0.1:9092")) as client:
        ...

Entering the block connects to the bootstrap addresses once, and raises ConnectionFailed if none responds. After that, transient failures
are retried for `operation_seconds`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Final, Self, TypeVar

from isthmus_model.endpoints import Endpoint
from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode

from isthmus_client.connection import Connection
from isthmus_client.coordinators import Coordinated, describe, find_coordinators
from isthmus_client.errors import ClientError, ConnectionFailed, GaveUp, Refused
from isthmus_client.limits import (
    CONNECT_STAGGER_SECONDS,
    METADATA_AGE_SECONDS,
    METADATA_SECONDS,
    METADATA_STAGGER_SECONDS,
    OPERATION_SECONDS,
    REQUEST_SECONDS,
    UNKNOWN_TOPIC_SECONDS,
)
from isthmus_client.metadata import Broker, ClusterView, TopicPartition
from isthmus_client.pool import SHORT_REQUESTS, Pool
from isthmus_client.retry import Backoff, Stale, is_retriable, stale_after
from isthmus_client.staggered import staggered
from isthmus_client.transports import PLAINTEXT, Transports
from isthmus_client.versions import NEWEST

R = TypeVar("R")
C = TypeVar("C", bound=Coordinated)
_UNKNOWN: Final = frozenset({ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id})


class Client:
    """A client of one cluster, shared by all its users; safe for concurrent tasks of one event loop."""

    def __init__(
        self,
        bootstrap: Sequence[Endpoint],
        *,
        client_id: str = "isthmus",
        operation_seconds: float = OPERATION_SECONDS,
        response_seconds: float = REQUEST_SECONDS,
        randomness: random.Random | None = None,
        transports: Transports = PLAINTEXT,
    ) -> None:
        """`response_seconds` bounds the wait for one broker's response; changes have a timeout of their own."""
        self._bootstrap = tuple(bootstrap)
        self.view = ClusterView(security=self._bootstrap[0].security)
        self._operation_seconds = operation_seconds
        self.response_seconds = response_seconds
        self._random = randomness or random.Random()
        self._backoff = Backoff()
        self._pool = Pool(client_id, self._backoff, self._random, response_seconds, transports)
        self._coordinators: dict[Coordinated, Broker] = {}
        self._refreshing = asyncio.Lock()
        self._generation = 0  # of the view
        self._updated_at = 0.0
        self._stale = True

    async def __aenter__(self) -> Self:
        try:
            await self.refresh()
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection; requests on them fail."""
        self._pool.close()

    # -- connections ---------------------------------------------------------------------------------------------------------

    async def connection(self, node_id: int, lane: str = SHORT_REQUESTS) -> Connection:
        """A connection to one broker; raises ConnectionFailed."""
        broker = self.view.brokers.get(node_id)
        if broker is None:
            self._stale = True
            raise ConnectionFailed(f"broker {node_id} is not in the cluster now")
        return await self._pool.get(broker.endpoint, lane)

    def endpoints(self) -> list[Endpoint]:
        """The brokers that can serve requests which any broker serves, in the order in which they are tried: a random one."""
        brokers = [broker.endpoint for broker in self.view.brokers.values()]
        self._random.shuffle(brokers)
        return sorted(dict.fromkeys((*brokers, *self._bootstrap)), key=self._pool.failed_recently)

    async def any_connection(self, api: ApiKey | None = None) -> Connection:
        """A connection to any reachable broker, if possible one that supports this API; raises ConnectionFailed if none is reachable."""
        failures: list[str] = []
        reached: Connection | None = None
        attempts = [partial(self._pool.get, endpoint) for endpoint in self.endpoints()]
        async with aclosing(staggered(attempts, CONNECT_STAGGER_SECONDS)) as outcomes:
            async for outcome in outcomes:
                if isinstance(outcome, ConnectionFailed):
                    failures.append(str(outcome))
                    continue
                reached = outcome
                if api is None or reached.versions.supports(api):
                    return reached
        if reached is not None:
            return reached
        raise ConnectionFailed("no broker can be reached: " + "; ".join(failures))

    def disconnect(self, endpoint: Endpoint) -> None:
        """Fail the short requests that wait for a broker, so that others can be tried."""
        self._pool.close_connection(endpoint)

    def close_lane(self, lane: str) -> None:
        """Close the connections of one lane to all brokers."""
        self._pool.close_lane(lane)

    # -- metadata ------------------------------------------------------------------------------------------------------------

    async def refresh(self, topics: Collection[str] | None = ()) -> ClusterView:
        """Refresh the metadata of the brokers, the cached topics and these topics (None: all)."""
        from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic

        generation = self._generation
        async with self._refreshing:
            if topics is not None and self._generation != generation and not self._missing(topics):
                return self.view  # another task has just refreshed it
            names: Iterable[str] = () if topics is None else dict.fromkeys((*self.view.topics, *topics))
            request = entity(
                MetadataRequest,
                topics=None
                if topics is None
                else tuple(entity(MetadataRequestTopic, topic_id=None, name=name) for name in names),
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=False,
            )
            response = await self._metadata(request)
            self.view = self.view.merged(response, all_topics=topics is None)
            self._generation += 1
            self._updated_at = asyncio.get_running_loop().time()
            self._stale = False
            return self.view

    async def _metadata(self, request: Any) -> Any:
        """The response of the first broker that responds; raises ConnectionFailed."""
        seconds = min(METADATA_SECONDS, self.response_seconds)

        async def exchange(endpoint: Endpoint) -> Any:
            connection = await self._pool.get(endpoint)
            # From version 4 on, a request can forbid the creation of topics.
            return await connection.request(ApiKey.METADATA, request, at_least=4, seconds=seconds)

        failures: list[str] = []
        attempts = [partial(exchange, endpoint) for endpoint in self.endpoints()]
        async with aclosing(staggered(attempts, METADATA_STAGGER_SECONDS)) as outcomes:
            async for outcome in outcomes:
                if not isinstance(outcome, ConnectionFailed):
                    return outcome
                failures.append(str(outcome))
        raise ConnectionFailed("no broker can be reached: " + "; ".join(failures))

    def _missing(self, topics: Collection[str]) -> bool:
        return any(topic not in self.view.topics for topic in topics)

    async def metadata_of(self, topics: Collection[str]) -> ClusterView:
        """Recent metadata with these topics or their errors."""
        age = asyncio.get_running_loop().time() - self._updated_at
        if self._stale or age > METADATA_AGE_SECONDS or self._missing(topics):
            return await self.refresh(topics)
        return self.view

    def invalidate(self, error: BaseException, coordinated: Iterable[Coordinated] = ()) -> None:
        """Mark the metadata or coordinators stale that this error disproves; the next use refreshes them."""
        stale = stale_after(error)
        if stale is Stale.METADATA:
            self._stale = True
        if stale is not Stale.NOTHING:
            for key in coordinated:
                self._coordinators.pop(key, None)

    # -- retries -------------------------------------------------------------------------------------------------------------

    async def retry(
        self, what: str, attempt: Callable[[], Awaitable[R]], coordinated: Collection[Coordinated] = ()
    ) -> R:
        """Attempt until it succeeds, fails permanently, or the operation times out (GaveUp)."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        failures = 0
        while True:
            try:
                return await attempt()
            except ClientError as error:
                if not is_retriable(error) or _does_not_exist(error, loop.time() - started):
                    raise
                failures += 1
                self.invalidate(error, coordinated)
                delay = self.pause(failures)
                if loop.time() + delay > started + self._operation_seconds:
                    raise GaveUp(
                        f"{what}: {failures} attempts within {self._operation_seconds:.0f} s; {error}"
                    ) from error
            await asyncio.sleep(delay)

    def pause(self, failures: int) -> float:
        """Seconds to back off after that many consecutive failures, for callers with their own retry loop."""
        return self._backoff.delay(failures, self._random)

    async def send_to_any(
        self, api: ApiKey, request: Any, check: Callable[[Any], None] | None = None, *, at_least: int = 0
    ) -> Any:
        """Send to any reachable broker; `check` raises Refused for an error response."""

        async def attempt() -> Any:
            connection = await self.any_connection(api)
            return _checked(await connection.request(api, request, at_least=at_least), check)

        return await self.retry(api.name, attempt)

    async def send_to_broker(
        self,
        node_id: int,
        api: ApiKey,
        request: Any,
        check: Callable[[Any], None] | None = None,
        *,
        at_least: int = 0,
    ) -> Any:
        """Send to one broker."""

        async def attempt() -> Any:
            await self.metadata_of(())
            connection = await self.connection(node_id)
            return _checked(await connection.request(api, request, at_least=at_least), check)

        return await self.retry(f"{api.name} of broker {node_id}", attempt)

    async def send_to_controller(
        self,
        api: ApiKey,
        request: Any,
        codes: Callable[[Any], Iterable[ErrorCode]],
        *,
        seconds: float = REQUEST_SECONDS,
    ) -> Any:
        """Send a change of the cluster. Every broker forwards it to the controller, or returns NOT_CONTROLLER while there is none."""

        async def attempt() -> Any:
            view = await self.metadata_of(())
            is_listed = view.controller_id in view.brokers
            connection = await (self.connection(view.controller_id) if is_listed else self.any_connection(api))
            if not connection.versions.supports(api):  # an Apache Kafka node, without Isthmus's own APIs
                connection = await self.any_connection(api)
            response = await connection.request(api, request, seconds=seconds)
            if ErrorCode.not_controller in codes(response):
                raise Refused(ErrorCode.not_controller, f"broker {connection.name}")
            return response

        return await self.retry(api.name, attempt)

    async def send_to_coordinator(
        self,
        key: Coordinated,
        api: ApiKey,
        request: Any,
        check: Callable[[Any], None],
        *,
        lane: str = SHORT_REQUESTS,
        seconds: float | None = None,
        at_least: int = 0,
        at_most: int = NEWEST,
    ) -> Any:
        """Send to the coordinator of a group or transactional id; `check` raises Refused, also for the codes of a moved coordinator."""

        async def attempt() -> Any:
            connection = await self.coordinator_connection(key, lane)
            response = await connection.request(api, request, seconds=seconds, at_least=at_least, at_most=at_most)
            return _checked(response, check)

        return await self.retry(f"{api.name} of {describe(key)}", attempt, [key])

    # -- leaders and coordinators --------------------------------------------------------------------------------------------

    async def leaders(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Broker | Refused]:
        """The leader of each partition, or the error if there is none."""
        view = await self.metadata_of({partition.topic for partition in partitions})
        return {partition: _leader(view, partition) for partition in partitions}

    async def coordinators(self, keys: Collection[C]) -> dict[C, Broker | Refused]:
        """The coordinator of each group or transactional id, or the error if there is none."""
        unknown = [key for key in keys if key not in self._coordinators]
        coordinators: dict[C, Broker | Refused] = {
            key: self._coordinators[key] for key in keys if key in self._coordinators
        }
        if unknown:
            responses = await find_coordinators(await self.any_connection(), unknown)
            coordinators |= {key: responses[key] for key in unknown}
            self._coordinators |= {key: broker for key, broker in responses.items() if isinstance(broker, Broker)}
        return coordinators

    async def coordinator_connection(self, key: Coordinated, lane: str = SHORT_REQUESTS) -> Connection:
        """A connection to the coordinator of a group or transactional id; raises ClientError."""
        coordinator = (await self.coordinators([key]))[key]
        if isinstance(coordinator, Refused):
            raise coordinator
        return await self._pool.get(coordinator.endpoint, lane)

    async def broker_connection(self, broker: Broker, lane: str = SHORT_REQUESTS) -> Connection:
        """A connection to a broker that `leaders` or `coordinators` returned."""
        return await self._pool.get(broker.endpoint, lane)

    def update_brokers(self, endpoints: Iterable[tuple[int, str, int, str | None]]) -> None:
        """Record the endpoints that a broker sent with new leaders."""
        self.view = self.view.with_brokers(endpoints)

    def update_leader(self, partition: TopicPartition, leader: int, leader_epoch: int) -> None:
        """Record the new leader that a broker sent with an error."""
        self.view = self.view.with_leader(partition, leader, leader_epoch)


def _checked(response: Any, check: Callable[[Any], None] | None) -> Any:
    if check is not None:
        check(response)
    return response


def _does_not_exist(error: ClientError, seconds: float) -> bool:
    return isinstance(error, Refused) and error.code in _UNKNOWN and seconds >= UNKNOWN_TOPIC_SECONDS


def _leader(view: ClusterView, partition: TopicPartition) -> Broker | Refused:
    if partition.topic in view.refused:
        return Refused(view.refused[partition.topic], f"topic {partition.topic}")
    current = view.leader(partition)
    if current is None:
        return Refused(ErrorCode.unknown_topic_or_partition, f"partition {partition}")
    broker = view.brokers.get(current.leader)
    if broker is None:
        return Refused(ErrorCode.leader_not_available, f"partition {partition}")
    return broker
