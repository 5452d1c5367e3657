"""Write samples of lag and load into a topic. Writing never blocks the caller for long."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
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
    """A topic of samples, created before the first write with the cluster's default replication factor; retention is `retention_ms`.

    A sample whose partition has no leader waits in the producer and is written when there is one. Samples are dropped while more than
    `_PENDING_MAX` wait, and when the producer times out.
    """

    def __init__(self, client: Client, name: str, *, retention_ms: int = _WEEK_MS) -> None:
        self._client = client
        self._name = name
        self._configs: Mapping[str, str] = {"cleanup.policy": "delete", "retention.ms": str(retention_ms)}
        self._producer = Producer(client)
        self._pending: set[asyncio.Task[Place]] = set()
        self._is_created = False
        self._failing = False

    async def write(self, samples: Sequence[tuple[bytes, bytes]]) -> None:
        """Write keys and values. Waits only briefly, since the next samples are due soon."""
        try:
            await self._create()
            for key, value in samples:
                if len(self._pending) >= _PENDING_MAX:
                    break
                delivery = await self._producer.send(self._name, value, key=key)
                self._pending.add(asyncio.ensure_future(delivery.place()))
        except ClientError as error:
            self._log_change(error)
        if self._pending:
            done, self._pending = await asyncio.wait(self._pending, timeout=_PATIENCE_SECONDS)
            for outcome in done:
                self._log_change(outcome.exception())

    def _log_change(self, failure: BaseException | None) -> None:
        """Log once when writing begins to fail, and once when it works again."""
        if failure is not None and not self._failing:
            logger.warning("cannot write samples to %s; they are lost until it works again: %s", self._name, failure)
        elif failure is None and self._failing:
            logger.info("writing samples to %s works again", self._name)
        self._failing = failure is not None

    async def _create(self) -> None:
        if self._is_created:
            return
        topic = topics.NewTopic(self._name, partitions=_PARTITIONS, configs=self._configs)
        refused = (await topics.create(self._client, [topic]))[self._name]
        if refused is not None and refused.code is not ErrorCode.topic_already_exists:
            raise refused
        self._is_created = True
