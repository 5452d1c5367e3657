"""One partition on its leader: followers fetch, time passes, the controller grants or refuses changes of the ISR."""

from collections.abc import Iterator

from isthmus_broker.core.replica.leader import IsrProposal, ReplicaLeader
from isthmus_broker.core.replica.leadership import IsrRules, Leadership
from isthmus_model.clocks import MonotonicMs

from tests.unit.replica.logs import ModelLog

EPOCH = 7
LAG_MS = 10_000


class World:
    def __init__(self) -> None:
        self._now = MonotonicMs(100_000)
        self._log = ModelLog()
        self._active: dict[int, int] = {}
        self._proposal: IsrProposal | None = None
        self._leader: ReplicaLeader | None = None

    @property
    def leader(self) -> ReplicaLeader:
        assert self._leader is not None, "lead first"
        return self._leader

    # -- commands ----------------------------------------------------------------------------------------------------

    def lead(
        self, replicas: str = "1,2,3", isr: str = "1,2,3", min_isr: str = "1", observers: str = ""
    ) -> Iterator[str]:
        """Broker 1 leads a partition with these replicas."""
        ids = _ids(replicas)
        watching = _ids(observers) if observers else ()
        self._active = {replica: 10 + replica for replica in (*ids, *watching)}
        leadership = Leadership(1, EPOCH, (*ids, *watching), _ids(isr), partition_epoch=0, observers=watching)
        rules = IsrRules(LAG_MS, int(min_isr))
        self._leader = ReplicaLeader(1, leadership, rules, self._active.get, self._log.end_offset, self._now)
        yield from self.status()

    def append(self, records: str) -> Iterator[str]:
        """Append records as the leader."""
        self._log.append(*[EPOCH] * int(records))
        self._advance()
        yield from self.status()

    def fetch(self, replica: str, offset: str) -> Iterator[str]:
        """A replica fetches from an offset, which says that it has everything below."""
        number = int(replica)
        self._log.high_watermark = self.leader.fetched(
            number, self._active[number], int(offset), self._log.log_start_offset, self._log, self._now
        )
        yield from self.status()

    def elapse(self, milliseconds: str) -> Iterator[str]:
        """Let time pass."""
        self._now = MonotonicMs(self._now + int(milliseconds))
        yield from ()

    def fence(self, replica: str) -> Iterator[str]:
        """The controller fences a broker."""
        del self._active[int(replica)]
        yield from ()

    def propose(self) -> Iterator[str]:
        """What the leader sends to the controller as AlterPartition."""
        self._proposal = self.leader.propose(self._log, self._now)
        if self._proposal is None:
            yield "no change"
        else:
            yield f"AlterPartition isr {[replica for replica, _ in self._proposal.isr]}"
        self._advance()
        yield from self.status()

    def grant(self) -> Iterator[str]:
        """The controller commits the proposed ISR."""
        assert self._proposal is not None
        old = self.leader.leadership
        isr = tuple(replica for replica, _ in self._proposal.isr)
        self.leader.update(old._replace(isr=isr, partition_epoch=old.partition_epoch + 1))
        self._advance()
        yield from self.status()

    def status(self) -> Iterator[str]:
        """The ISR, the log end and the high watermark."""
        leader = self.leader
        enough = "" if leader.has_enough_in_sync else ", too few in sync for acks=all"
        yield (
            f"isr {list(leader.leadership.isr)}, log end {self._log.end_offset}, high watermark {self._log.high_watermark}{enough}"
        )

    def _advance(self) -> None:
        self._log.high_watermark = self.leader.high_watermark(self._log, self._now)


def _ids(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))
