"""Changes of one partition: its leader, ISR, eligible leader replicas (KIP-966), and the completion of a reassignment.

Every change of a partition goes through here, so that the same rules apply to an ISR change by the leader, a broker that is fenced or
unfenced, an election, and a step of a reassignment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from uuid import UUID

from isthmus_broker.core.metadata.image import NO_LEADER, Partition
from isthmus_broker.core.metadata.replay import NO_LEADER_CHANGE, NO_RECOVERY_CHANGE
from isthmus_broker.core.metadata.schema import PartitionChangeRecord

RECOVERED = 0
RECOVERING = 1
Replicas = tuple[int, ...]


class Election(Enum):
    PREFERRED = "move leadership to the first replica if that is possible"
    ONLINE = "keep the leader, else take one that holds every committed record"
    UNCLEAN = "as online, else take any replica that is alive, whatever is lost"


def is_reassigning(partition: Partition) -> bool:
    return bool(partition.adding_replicas or partition.removing_replicas)


@dataclass(slots=True, kw_only=True)
class PartitionChange:
    """A partition and its changes; `record` returns the record to be written, if any."""

    partition: Partition
    may_lead: Callable[[int], bool]
    min_isr: int
    elr_enabled: bool
    default_directory: Callable[[int], UUID | None]
    leading_order: Callable[[Replicas, Replicas], Replicas] = lambda replicas, _observers: replicas
    """Replicas in their order of preference for leadership, and the observers among them."""
    election: Election = Election.ONLINE
    isr: Replicas | None = None
    replicas: Replicas | None = None
    observers: Replicas | None = None
    removing: Replicas | None = None
    adding: Replicas | None = None
    recovery_state: int | None = None
    directories: Mapping[int, UUID | None] = field(default_factory=dict)
    uncleanly_stopped: Sequence[int] = ()

    @property
    def preferred_leader(self) -> int:
        """The preferred leader."""
        return self.leading_order(self.partition.replicas, self.partition.observers or ())[0]

    def record(self) -> PartitionChangeRecord | None:
        """The record of the change; None if nothing differs."""
        before = self.partition
        isr, replicas, removing, adding = self._after_reassignment()
        observers = self._observers(replicas)
        elr = self._eligible(isr, replicas, observers)
        leader, unclean = self._elected(isr, elr, self.leading_order(replicas, observers))
        recovery_state = before.leader_recovery_state if self.recovery_state is None else self.recovery_state
        if (leader in elr or unclean) and (removing or adding) and leader != NO_LEADER:
            return self._with_sole_member(leader, unclean=unclean).record()
        if leader in elr:
            isr, elr = (leader,), tuple(replica for replica in elr if replica != leader)
        if unclean:
            # The elected leader defines the log from here on; the recovery state remains until it has truncated its own log.
            isr, elr, recovery_state = (leader,), (), RECOVERING
        if not self.elr_enabled and not isr:
            isr = before.isr  # without eligible leaders the last in-sync replicas are recorded as such
        bump = leader != before.leader or bool(set(before.replicas) - set(replicas))
        directories = self._directories(replicas)
        change = PartitionChangeRecord(
            partition_id=before.partition_id,
            topic_id=before.topic_id,
            leader=leader if bump else NO_LEADER_CHANGE,
            isr=_if_new(isr, before.isr),
            replicas=_if_new(replicas, before.replicas),
            removing_replicas=_if_new(removing, before.removing_replicas),
            adding_replicas=_if_new(adding, before.adding_replicas),
            leader_recovery_state=NO_RECOVERY_CHANGE
            if recovery_state == before.leader_recovery_state
            else recovery_state,
            directories=None if directories == before.directories else directories,
            eligible_leader_replicas=_if_new(elr, before.eligible_leader_replicas or ()),
            last_known_elr=self._last_known_leader(leader) if bump else None,
            observers=_if_new(observers, before.observers or ()),
        )
        unchanged = PartitionChangeRecord(partition_id=before.partition_id, topic_id=before.topic_id)
        return None if change == unchanged else change

    def _with_sole_member(self, leader: int, *, unclean: bool) -> PartitionChange:
        """The same change with the elected leader in sync: that may complete the reassignment."""
        if not unclean:
            return replace(self, isr=(leader,))
        return replace(self, isr=(leader,), recovery_state=RECOVERING, uncleanly_stopped=self.partition.replicas)

    def _after_reassignment(self) -> tuple[Replicas, Replicas, Replicas, Replicas]:
        """ISR, replicas, removing, adding; a reassignment whose new replicas are all in sync is complete."""
        before = self.partition
        isr = before.isr if self.isr is None else self.isr
        replicas = before.replicas if self.replicas is None else self.replicas
        removing = before.removing_replicas if self.removing is None else self.removing
        adding = before.adding_replicas if self.adding is None else self.adding
        if not removing and not adding:
            return isr, replicas, removing, adding
        kept_isr = tuple(replica for replica in isr if replica not in removing)
        kept = tuple(replica for replica in replicas if replica not in removing)
        observers = self._observers(replicas)
        complete = bool(kept_isr or not removing) and bool(kept) and set(adding) - set(observers) <= set(kept_isr)
        if complete and (observers or len(adding) < len(removing)):
            # The replica set shrinks or an observer is promoted: none of the new replicas may lag when the others are removed.
            # An observer is not waited for, it would never join the ISR.
            complete = set(kept) - set(observers) <= set(kept_isr)
        return (kept_isr, kept, (), ()) if complete else (isr, replicas, removing, adding)

    def _observers(self, replicas: Replicas) -> Replicas:
        observers = (self.partition.observers or ()) if self.observers is None else self.observers
        return tuple(replica for replica in observers if replica in replicas)

    def _eligible(self, isr: Replicas, replicas: Replicas, observers: Replicas) -> Replicas:
        """Out-of-sync replicas that have every committed record: they left the ISR while it was below min.insync.replicas.

        Unlike in Kafka, a broker that was removed by a reassignment is not among them: it has no data left.
        """
        if not self.elr_enabled or len(isr) >= self.min_isr:
            return ()
        candidates = {*(self.partition.eligible_leader_replicas or ()), *self.partition.isr}
        return tuple(sorted((candidates & set(replicas)) - set(isr) - set(observers) - set(self.uncleanly_stopped)))

    def _elected(self, isr: Replicas, elr: Replicas, replicas: Replicas) -> tuple[int, bool]:
        """The leader, and whether electing it may lose records."""

        def holds_all(replica: int) -> bool:
            return (replica in isr or (not isr and replica in elr)) and self.may_lead(replica)

        order = (replicas[0], self.partition.leader, *replicas[1:])
        if self.election is not Election.PREFERRED:
            order = (self.partition.leader, *replicas)
        leader = next((replica for replica in order if holds_all(replica)), None)
        if leader is not None:
            return leader, False
        # A reassignment may have removed the last known leader: it has no data left.
        last_known = [replica for replica in self.partition.last_known_elr or () if replica in replicas]
        if self.elr_enabled and not isr and not elr and len(last_known) == 1 and self.may_lead(last_known[0]):
            return last_known[0], True
        if self.election is Election.UNCLEAN:
            leader = next((replica for replica in replicas if self.may_lead(replica)), None)
        return (NO_LEADER, False) if leader is None else (leader, True)

    def _last_known_leader(self, leader: int) -> Replicas | None:
        """A partition that loses its leader records it: it may become leader again if no replica is eligible."""
        last_elr = self.partition.last_known_elr or ()
        if not self.elr_enabled:
            return None
        if leader == NO_LEADER and not last_elr and self.partition.leader != NO_LEADER:
            return (self.partition.leader,)
        return () if leader != NO_LEADER and last_elr else None

    def _directories(self, replicas: Replicas) -> tuple[UUID | None, ...]:
        directories: dict[int, UUID | None] = dict(
            zip(self.partition.replicas, self.partition.directories, strict=True)
        )
        directories.update(self.directories)
        return tuple(directories[r] if r in directories else self.default_directory(r) for r in replicas)


def _if_new(after: Replicas, before: Replicas) -> Replicas | None:
    return None if after == before else after
