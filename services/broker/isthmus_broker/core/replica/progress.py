"""The progress of one follower or observer, as the leader knows it from its fetches."""

from dataclasses import dataclass
from typing import Final

from isthmus_model.clocks import MonotonicMs

from isthmus_broker.core.replica.leadership import NO_BROKER_EPOCH

UNKNOWN_OFFSET: Final = -1
LONG_AGO: Final = -(2**62)


@dataclass(slots=True)
class FetchClock:
    """The time of the last fetch of a replica's session, for the partitions that the fetch did not name."""

    fetched_ms: int = LONG_AGO


@dataclass(slots=True)
class Progress:
    """One replica's state. Times are the leader's clock.

    While `clock` is set, every fetch of the session counts as a fetch of this partition from the same offset. That requires that nothing
    has been appended since: call `settle` before an append.
    """

    log_end: int = UNKNOWN_OFFSET
    log_start: int = UNKNOWN_OFFSET
    fetched_ms: int = LONG_AGO
    caught_up_ms: int = LONG_AGO
    broker_epoch: int = NO_BROKER_EPOCH
    high_watermark: int = UNKNOWN_OFFSET  # the last that the replica has certainly received
    sent_high_watermark: int = UNKNOWN_OFFSET  # of the last response; certainly received when the next fetch comes
    sent_log_start: int = UNKNOWN_OFFSET
    leader_end: int = UNKNOWN_OFFSET  # of the leader's log, when the replica fetched last
    proposed_ms: int = LONG_AGO  # when the leader last proposed that it join the ISR
    clock: FetchClock | None = None

    @property
    def last_fetch_ms(self) -> int:
        """The time of the last fetch."""
        return self.fetched_ms if self.clock is None else max(self.fetched_ms, self.clock.fetched_ms)

    @property
    def last_caught_up_ms(self) -> int:
        """The last time at which it was caught up."""
        return self.caught_up_ms if self.clock is None else max(self.caught_up_ms, self.clock.fetched_ms)

    def settle(self) -> None:
        """Stop counting the session's fetches as fetches of this partition."""
        if self.clock is not None:
            self.fetched_ms, self.clock = self.last_fetch_ms, None
            if self.log_end >= self.leader_end:
                self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)

    def fetched(self, offset: int, log_start: int, leader_end: int, now_ms: MonotonicMs) -> None:
        """Record that the replica has all records below `offset`.

        A replica that has fetched everything up to the log end of its last fetch was caught up at that time, even if it never reaches the
        end of a busy log.
        """
        self.settle()
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.leader_end >= 0:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.log_end = offset
        self.log_start = log_start
        self.fetched_ms = now_ms
        self.leader_end = leader_end
        self.high_watermark = self.sent_high_watermark

    def is_caught_up(self, leader_end: int, now_ms: MonotonicMs, lag_max_ms: int) -> bool:
        """Whether it has all records now, or had within replica.lag.time.max.ms."""
        return self.log_end == leader_end or now_ms - self.caught_up_ms <= lag_max_ms
