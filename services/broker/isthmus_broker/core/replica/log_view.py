"""The parts of a log that replicas read."""

from typing import Protocol

from isthmus_wire.records import BatchHeader

from isthmus_broker.core.config.topic_config import TopicConfig
from isthmus_broker.core.log.epochs import EpochHistory
from isthmus_broker.core.log.producer_state import ProducerState


class LogView(Protocol):
    """The offsets of a log and the history of its leader epochs."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def epochs(self) -> EpochHistory: ...


class ReplicaLog(LogView, Protocol):
    """A replica's own log. The replica sets its high watermark and decides every change to its records."""

    high_watermark: int
    config: TopicConfig

    @property
    def last_stable_offset(self) -> int: ...

    @property
    def producers(self) -> ProducerState: ...

    @property
    def last_batch(self) -> BatchHeader | None: ...
