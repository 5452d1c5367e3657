"""Writing samples into a topic of a cluster: lag, load. A sample that cannot be written is dropped, for the next one says more."""

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from isthmus_client.admin import topics
from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_client.producer import Producer
from isthmus_wire.errors import ErrorCode

logger = logging.getLogger(__name__)

_PARTITIONS: Final = 4
_WEEK_MS: Final = 7 * 24 * 3600 * 1000


class SampleTopic:
    """The topic is made with the first samples, with the cluster's own replication factor, and keeps them for `retention_ms`."""

    def __init__(self, client: Client, name: str, *, retention_ms: int = _WEEK_MS) -> None:
        self._client = client
        self._name = name
        self._configs: Mapping[str, str] = {"cleanup.policy": "delete", "retention.ms": str(retention_ms)}
        self._producer = Producer(client)
        self._made = False
        self._failing = False

    async def write(self, samples: Iterable[tuple[bytes, bytes]]) -> None:
        """Keys and values; returns when they are acknowledged or given up. The log tells when writing begins to fail and when it ends."""
        try:
            await self._make()
            sent = [await self._producer.send(self._name, value, key=key) for key, value in samples]
            for delivery in sent:
                await delivery.place()
        except ClientError as error:
            if not self._failing:
                logger.warning("samples for %s are dropped until they can be written again: %s", self._name, error)
            self._failing = True
            return
        if self._failing:
            logger.info("samples for %s are written again", self._name)
        self._failing = False

    async def _make(self) -> None:
        if self._made:
            return
        wanted = topics.NewTopic(self._name, partitions=_PARTITIONS, configs=self._configs)
        refused = (await topics.create(self._client, [wanted]))[self._name]
        if refused is not None and refused.code is not ErrorCode.topic_already_exists:
            raise refused
        self._made = True
