"""A partition as its follower sees it: what to fetch next, where to cut its log, when to try again.

The follower asks from its log's end and says which epoch wrote its last record. A leader that does not have that very record answers
with the end of the last epoch both may share, and the follower cuts its log there, in as many rounds as it takes. So a former leader
loses what it never committed by the protocol, and nothing by a guess.

How to drive it:

    begin(log)                     once, for a log that knows no epochs
    wanted(log, now)               what to ask, or None while it waits
    answered(wanted, answer, ...)  what to do with the answer
    offsets(start, end, ...)       after AskOffsets, with the leader's log start and log end
    failed(now)                    no answer came, or one that cannot be used
"""

from typing import Final, NamedTuple

from isthmus_wire.errors import ErrorCode
from isthmus_wire.fetch import FetchedPartition

from isthmus_broker.core.log.epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET, EpochHistory
from isthmus_broker.core.replica.leadership import LogView

_NOW: Final = -(2**62)
FIRST_RETRY_MS: Final = 20
"""A leader often refuses because one of the two has not heard of a change yet, and soon will. Each further wait is twice as long."""


class Wanted(NamedTuple):
    """One partition of a fetch."""

    offset: int
    leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int


class Append(NamedTuple):
    """Append the answer's records, if any, as they are; then take over the leader's watermarks."""

    leader_high_watermark: int
    leader_log_start: int

    def high_watermark(self, log: LogView) -> int:
        """The follower's high watermark after the append; it never falls by an answer."""
        return max(log.high_watermark, min(self.leader_high_watermark, log.end_offset))

    def log_start(self, log: LogView) -> int:
        """The follower's log start after the append: the leader deleted what lies below."""
        return max(log.log_start_offset, min(self.leader_log_start, log.end_offset))


class Truncate(NamedTuple):
    """Cut the log from `end_offset` on, and forget epochs that begin there or above, even when no record is cut."""

    end_offset: int


class RestartAt(NamedTuple):
    """Drop the whole log and begin empty at `offset`: the leader has deleted everything this log ends with."""

    offset: int


class AskOffsets(NamedTuple):
    """Ask the leader for its log start and log end."""


class Later(NamedTuple):
    """Nothing to do before `wanted` says so again."""


Step = Append | Truncate | RestartAt | AskOffsets | Later


class ReplicaFollower:
    """The follower's state for one leader epoch; another epoch makes another one."""

    def __init__(self, leader: int, leader_epoch: int, backoff_ms: int) -> None:
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.is_fenced = False
        """A newer leader epoch exists: nothing is fetched until the metadata log tells of it."""
        self._is_compared = False  # whether the leader has found the log to be part of its own
        self._backoff_max_ms = backoff_ms
        self._backoff_ms = min(FIRST_RETRY_MS, backoff_ms)
        self._resume_ms = _NOW

    def begin(self, log: LogView) -> Step:
        """A log without epochs cannot be compared: what is not known to be committed is fetched anew."""
        if log.epochs.latest_epoch == UNDEFINED_EPOCH and log.end_offset > log.high_watermark:
            return Truncate(log.high_watermark)
        return Later()

    def wanted(self, log: LogView, now_ms: int) -> Wanted | None:
        """What to ask the leader, or None while it waits."""
        if self.is_fenced or now_ms < self._resume_ms:
            return None
        return Wanted(log.end_offset, self.leader_epoch, log.epochs.latest_epoch, log.log_start_offset)

    def resume_ms(self) -> int | None:
        """When a wait ends by itself, if it does; only worth asking after `wanted` said None."""
        return None if self.is_fenced else self._resume_ms

    def failed(self, now_ms: int) -> None:
        """Try again after a while, that is longer each time until something is answered."""
        self._resume_ms = now_ms + self._backoff_ms
        self._backoff_ms = min(2 * self._backoff_ms, self._backoff_max_ms)

    def answered(self, asked: Wanted, answer: FetchedPartition, log: LogView, now_ms: int) -> Step:
        """What to do with an answer to `asked`."""
        if asked.offset != log.end_offset:
            return Later()  # the log is not what it was when this was asked
        error = ErrorCode(answer.error_code)
        if error is ErrorCode.none:
            self._backoff_ms = min(FIRST_RETRY_MS, self._backoff_max_ms)
            if answer.diverging_epoch is not None:
                return _cut(truncation_offset(*answer.diverging_epoch, log), answer.log_start_offset)
            if not self._is_compared and log.log_start_offset < asked.offset <= answer.log_start_offset:
                return RestartAt(answer.log_start_offset)
            self._is_compared = True
            return Append(answer.high_watermark, answer.log_start_offset)
        if error is ErrorCode.offset_out_of_range:
            return AskOffsets()
        if error is ErrorCode.fenced_leader_epoch:
            self.is_fenced = True
        else:
            self.failed(now_ms)
        return Later()

    def offsets(self, leader_start: int, leader_end: int, log: LogView, now_ms: int) -> Step:
        """Where to go on when the offset asked for is not in the leader's log."""
        if leader_end < log.end_offset:
            return Truncate(leader_end)  # an unclean leader has less than we do
        if leader_start > log.end_offset:
            return RestartAt(leader_start)
        self.failed(now_ms)  # it is there by now: nothing to cut, and no reason to ask in a loop
        return Later()


def _cut(end: int, leader_start: int) -> Truncate | RestartAt:
    """Of what is left below the leader's start nothing can be compared. It may be records that were never committed, whose producers would
    be told of a repeat if they sent them again to this replica as a leader."""
    return RestartAt(leader_start) if 0 < end <= leader_start else Truncate(end)


def truncation_offset(leader_epoch: int, leader_end: int, log: LogView) -> int:
    """Where to cut a log whose last record the leader does not have.

    The leader said: of epochs up to the one asked for, my last is `leader_epoch` and it ends at `leader_end`. When this log has that
    epoch too, both are equal up to the earlier of its two ends. When it does not, the cut goes to the end of an older epoch, and the
    next fetch asks about that one.
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
    """As `EpochHistory.end_offset`, but an epoch above all known ones ends, for the one who must cut, with the newest."""
    return epochs.end_offset(min(epoch, epochs.latest_epoch), log_end)
