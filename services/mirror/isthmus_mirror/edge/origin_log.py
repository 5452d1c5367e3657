"""The origins of records of the source that flows wrote there, read from the progress that those flows record."""

from collections.abc import Callable, Collection, Sequence
from uuid import UUID

from isthmus_client.client import Client
from isthmus_client.metadata import TopicPartition
from isthmus_model.internal_topics import MIRROR_PROGRESS_PREFIX

from isthmus_mirror.core.origins import Origins
from isthmus_mirror.core.progress import Copy, Place
from isthmus_mirror.core.written import Written
from isthmus_mirror.edge.progress_log import ProgressReader


class OriginLog:
    """What the flows from other clusters, by their aliases, have written to a source."""

    def __init__(self, source: Client, aliases: Collection[str]) -> None:
        self._source = source
        self._unseen = set(aliases)
        self._readers: dict[str, _Reader] = {}
        self._origins: dict[Copy, Origins] = {}

    def of(self, partition: TopicPartition, topic_id: UUID | None) -> Origins:
        """The origins of a partition's records; `read_to_end` brings them up to date."""
        return self._of(Copy(Place(*partition), topic_id))

    def _of(self, copy: Copy) -> Origins:
        return self._origins.setdefault(copy, Origins())

    async def read_to_end(self) -> None:
        """Learn the origins of all records that are committed at the time of the call; raises ClientError."""
        if self._unseen:
            names = {f"{MIRROR_PROGRESS_PREFIX}{alias}": alias for alias in self._unseen}
            view = await self._source.refresh(list(names))
            for name in names.keys() & view.topics.keys():
                alias = names[name]
                self._unseen.discard(alias)
                self._readers[alias] = _Reader(self._source, name, alias, self._of)
        for reader in self._readers.values():
            await reader.read_to_end()


class _Reader(ProgressReader):
    """The progress of the flow from one cluster, as origins."""

    def __init__(self, source: Client, topic: str, alias: str, origins: Callable[[Copy], Origins]) -> None:
        super().__init__(source, topic)
        self._alias = alias
        self._origins_of = origins

    def _replay_written(self, copy: Copy, _base: int, runs: Sequence[Written]) -> None:
        if runs:
            self._origins_of(copy).add(self._alias, runs)
