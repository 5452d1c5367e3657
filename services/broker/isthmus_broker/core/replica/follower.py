"""The follower's state of a partition: what to fetch next, where to truncate its log, when to retry.

The follower fetches from its log end and sends the epoch of its last record. A leader that does not have that record responds with
the end of the last epoch both may share, and the follower truncates its log there, in as many rounds as needed. So a former leader loses
only records that were never committed.

How to drive it:

    begin(log)                        once, for a log without epochs
    next_fetch(log, now)              what to fetch, or None while it waits
    handle_response(fetch, response)  what to do with the response
    handle_offsets(start, end, ...)   after ResolveOffsets, with the leader's log start and log end
    back_off(now)                     no response came, or it was unusable
"""

from typing import Final, NamedTuple

from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode
from isthmus_wire.fetch import FetchedPartition

from isthmus_broker.core.log.epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET, EpochHistory
from isthmus_broker.core.replica.log_view import LogView

_NOW: Final = -(2**62)
FIRST_RETRY_MS: Final = 20
"""The first back-off, which then doubles. It is short, as most refusals end when either broker receives a metadata change."""


class NextFetch(NamedTuple):
    """This partition in the next fetch."""

    offset: int
    leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int


class AppendFetched(NamedTuple):
    """Append the records of the response, if any, unchanged; then apply the leader's watermarks."""

    leader_high_watermark: int
    leader_log_start: int

    def high_watermark(self, log: LogView) -> int:
        """The follower's high watermark after the append; a response never moves it back."""
        return max(log.high_watermark, min(self.leader_high_watermark, log.end_offset))

    def log_start(self, log: LogView) -> int:
        """The follower's log start offset after the append: the leader has deleted the records below it."""
        return max(log.log_start_offset, min(self.leader_log_start, log.end_offset))


class Truncate(NamedTuple):
    """Truncate the log to `end_offset` and remove epochs that begin there or above, even if no record is removed."""

    end_offset: int


class RestartAt(NamedTuple):
    """Delete the whole log and start empty at `offset`: the leader has deleted everything below it."""

    offset: int


class ResolveOffsets(NamedTuple):
    """Look up the leader's log start and log end: the fetch offset is not in its log."""


class Wait(NamedTuple):
    """Do nothing before the next fetch."""


Step = AppendFetched | Truncate | RestartAt | ResolveOffsets | Wait


class ReplicaFollower:
    """The follower's state for one leader epoch; each epoch has its own."""

    def __init__(self, leader: int, leader_epoch: int, backoff_ms: int) -> None:
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.is_fenced = False
        """A newer leader epoch exists: nothing is fetched until this node has replayed it from the metadata log."""
        self._is_compared = False  # whether the leader has confirmed that the log is part of its own
        self._backoff_max_ms = backoff_ms
        self._backoff_ms = min(FIRST_RETRY_MS, backoff_ms)
        self._resume_ms = _NOW

    def begin(self, log: LogView) -> Step:
        """Truncate a log without epochs to its high watermark: it cannot be compared with the leader's."""
        if log.epochs.latest_epoch == UNDEFINED_EPOCH and log.end_offset > log.high_watermark:
            return Truncate(log.high_watermark)
        return Wait()

    def next_fetch(self, log: LogView, now_ms: MonotonicMs) -> NextFetch | None:
        """What to fetch from the leader, or None while it waits."""
        if self.is_fenced or now_ms < self._resume_ms:
            return None
        return NextFetch(log.end_offset, self.leader_epoch, log.epochs.latest_epoch, log.log_start_offset)

    def resume_ms(self) -> int | None:
        """The end of the back-off; None while only a new leader epoch can end the wait."""
        return None if self.is_fenced else self._resume_ms

    def back_off(self, now_ms: MonotonicMs) -> None:
        """Wait before the next fetch; the wait doubles until a fetch succeeds."""
        self._resume_ms = now_ms + self._backoff_ms
        self._backoff_ms = min(2 * self._backoff_ms, self._backoff_max_ms)

    def handle_response(self, fetch: NextFetch, response: FetchedPartition, log: LogView, now_ms: MonotonicMs) -> Step:
        """Decide the next step after the response to `fetch`."""
        if fetch.offset != log.end_offset:
            return Wait()  # the log has changed since the fetch was sent
        error = ErrorCode(response.error_code)
        if error is ErrorCode.none:
            self._backoff_ms = min(FIRST_RETRY_MS, self._backoff_max_ms)
            if response.diverging_epoch is not None:
                return _truncate(truncation_offset(*response.diverging_epoch, log), response.log_start_offset)
            if not self._is_compared and log.log_start_offset < fetch.offset <= response.log_start_offset:
                return RestartAt(response.log_start_offset)
            self._is_compared = True
            return AppendFetched(response.high_watermark, response.log_start_offset)
        if error is ErrorCode.offset_out_of_range:
            return ResolveOffsets()
        if error is ErrorCode.fenced_leader_epoch:
            self.is_fenced = True
        else:
            self.back_off(now_ms)
        return Wait()

    def handle_offsets(self, leader_start: int, leader_end: int, log: LogView, now_ms: MonotonicMs) -> Step:
        """Decide the next step when the fetch offset is not in the leader's log."""
        if leader_end < log.end_offset:
            return Truncate(leader_end)  # after an unclean election, the leader's log is shorter
        if leader_start > log.end_offset:
            return RestartAt(leader_start)
        self.back_off(
            now_ms
        )  # the leader's log has the offset by now: nothing to truncate; back off instead of looping
        return Wait()


def _truncate(end: int, leader_start: int) -> Truncate | RestartAt:
    """Truncate to `end`, or restart at the leader's log start if `end` is not above it.

    Records below the leader's log start cannot be compared. Some may never have been committed; this replica, as a later leader, would
    treat them as duplicates when their producers send them again.
    """
    return RestartAt(leader_start) if 0 < end <= leader_start else Truncate(end)


def truncation_offset(leader_epoch: int, leader_end: int, log: LogView) -> int:
    """The offset to which a log is truncated whose last record the leader does not have.

    Of the epochs up to the one in the fetch, the leader's last is `leader_epoch`, which ends at `leader_end`. When this log has that epoch
    too, both are equal up to the earlier of its two ends. When it does not, the log is truncated to the end of an older epoch, and the next
    fetch compares that one.
    """
    if leader_end == UNDEFINED_OFFSET:
        return log.high_watermark
    epoch, end = end_of_epoch(log.epochs, leader_epoch, log.end_offset)
    if end == UNDEFINED_OFFSET:
        return min(leader_end, log.end_offset)
    if epoch != leader_epoch:
        return min(end, log.end_offset)
    return min(end, leader_end, log.end_offset)


def end_of_epoch(epochs: EpochHistory, epoch: int, log_end: int) -> tuple[int, int]:
    """As `EpochHistory.end_offset`, but an epoch above all recorded ones ends with the newest."""
    return epochs.end_offset(min(epoch, epochs.latest_epoch), log_end)
