"""Writing samples into a topic of a cluster: lag, load. Whoever takes them must never be held up by where they go."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Final

from isthmus_client.admin import topics
from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_client.producer import Place, Producer
from isthmus_wire.errors import ErrorCode

logger = logging.getLogger(__name__)

_PARTITIONS: Final = 4
_WEEK_MS: Final = 7 * 24 * 3600 * 1000


_PATIENCE_SECONDS: Final = 1.0
_PENDING_MAX: Final = 20_000


class SampleTopic:
    """The topic is made with the first samples, with the cluster's own replication factor, and keeps them for `retention_ms`.

    A sample whose partition nobody leads, as while a region is cut off, waits in the producer and is written when somebody does; samples
    beyond `_PENDING_MAX` of such are dropped, and so are those that cannot be written for as long as the producer tries.
    """

    def __init__(self, client: Client, name: str, *, retention_ms: int = _WEEK_MS) -> None:
        self._client = client
        self._name = name
        self._configs: Mapping[str, str] = {"cleanup.policy": "delete", "retention.ms": str(retention_ms)}
        self._producer = Producer(client)
        self._pending: set[asyncio.Task[Place]] = set()
        self._made = False
        self._failing = False

    async def write(self, samples: Iterable[tuple[bytes, bytes]]) -> None:
        """Keys and values. It waits for a moment only: the next samples are due, whatever becomes of these."""
        try:
            await self._make()
            for key, value in samples:
                if len(self._pending) >= _PENDING_MAX:
                    break
                delivery = await self._producer.send(self._name, value, key=key)
                self._pending.add(asyncio.ensure_future(delivery.place()))
        except ClientError as error:
            self._told(error)
        if self._pending:
            done, self._pending = await asyncio.wait(self._pending, timeout=_PATIENCE_SECONDS)
            for outcome in done:
                self._told(outcome.exception())

    def _told(self, failure: BaseException | None) -> None:
        """One line of log when writing begins to fail, and one when it works again."""
        if failure is not None and not self._failing:
            logger.warning("samples for %s are lost until they can be written again: %s", self._name, failure)
        elif failure is None and self._failing:
            logger.info("samples for %s are written again", self._name)
        self._failing = failure is not None

    async def _make(self) -> None:
        if self._made:
            return
        wanted = topics.NewTopic(self._name, partitions=_PARTITIONS, configs=self._configs)
        refused = (await topics.create(self._client, [wanted]))[self._name]
        if refused is not None and refused.code is not ErrorCode.topic_already_exists:
            raise refused
        self._made = True
