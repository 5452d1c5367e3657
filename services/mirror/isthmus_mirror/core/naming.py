"""Names of copies in the target, and the topics that must not be copied, so that flows never form a cycle."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from isthmus_model.internal_topics import MIRROR_PROGRESS_PREFIX

HEARTBEATS: Final = "heartbeats"
_KAFKA_INTERNAL: Final = ("__", ".")
_CONNECT_INTERNAL: Final = ("-internal", ".internal")


@dataclass(frozen=True, slots=True)
class Naming:
    """MirrorMaker's DefaultReplicationPolicy, or with `identity` its IdentityReplicationPolicy."""

    source: str
    target: str
    separator: str = "."
    identity: bool = False
    separated_internals: bool = True
    """Whether internal topics use the separator too, or always a dot."""

    def remote(self, topic: str) -> str:
        """The copy's name. Heartbeats carry their path in their name under either policy."""
        if self.identity and not self._is_heartbeats(topic):
            return topic
        return f"{self.source}{self.separator}{topic}"

    @property
    def offset_syncs_at_source(self) -> str:
        """The offset syncs topic if it is in the source."""
        return self._internal("mm2-offset-syncs", self.target)

    @property
    def offset_syncs_at_target(self) -> str:
        """The offset syncs topic if it is in the target."""
        return self._internal("mm2-offset-syncs", self.source)

    @property
    def checkpoints(self) -> str:
        """The checkpoints topic in the target."""
        return self._internal(self.source, "checkpoints")

    @property
    def progress(self) -> str:
        """The topic of jumps in the target."""
        return f"{MIRROR_PROGRESS_PREFIX}{self.source}"

    def _internal(self, *words: str) -> str:
        return (self.separator if self.separated_internals else ".").join((*words, "internal"))

    def refuses(self, topic: str) -> str:
        """Why a topic is never copied, regardless of filters; empty if it may be."""
        if self._is_internal(topic):
            return "it is internal"
        if self.identity and not self._is_heartbeats(topic):
            return ""
        way = list(self._way(topic))
        if self.target in way:
            return f"it comes from {self.target}"
        if self.source in way:
            return f"it has been at {self.source} before"
        return ""

    def is_heartbeats(self, topic: str) -> bool:
        """Whether it has heartbeats of this source or of one upstream."""
        return self._is_heartbeats(topic)

    def _is_heartbeats(self, topic: str) -> bool:
        return topic == HEARTBEATS or topic.endswith(self.separator + HEARTBEATS)

    def _way(self, topic: str) -> Iterator[str]:
        """The cluster aliases in a name, the nearest first."""
        yield from topic.split(self.separator)[:-1]

    def _is_internal(self, topic: str) -> bool:
        return topic.startswith(_KAFKA_INTERNAL) or topic.endswith((*_CONNECT_INTERNAL, f"{self.separator}internal"))
