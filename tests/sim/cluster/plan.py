"""The shape of a cluster, its topics and clients, and the kinds and rates of its faults, all drawn from the seed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from isthmus_model.constraints import Promotion

from tests.sim.cluster.machine import BROKER_PORT, CONTROLLER_PORT

SESSION_MS: Final = 1_200
REGIONS: Final = 3
MIN_IN_SYNC: Final = 2
OBSERVED: Final = "observed"
CONSTRAINTS: Final = "isthmus.placement.constraints"


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """One topic."""

    name: str
    partitions: int
    factor: int
    """-1 for a topic with placement constraints."""
    configs: Mapping[str, str]

    @property
    def is_compacted(self) -> bool:
        return self.configs.get("cleanup.policy") == "compact"

    @property
    def may_lose(self) -> bool:
        """Whether a replica without all acknowledged records may become the leader."""
        return "unclean.leader.election.enable" in self.configs

    @property
    def is_trimmed(self) -> bool:
        """Whether retention deletes its oldest records."""
        return "retention.bytes" in self.configs


@dataclass(frozen=True, slots=True)
class Rates:
    """Mean pauses between the faults of each kind, in seconds; None for never."""

    kill_every: float | None = None
    power_every: float | None = None
    site_every: float | None = None
    """Between failures of all machines at once: of their power if everything is synced, else SIGKILL."""
    pause_every: float | None = None
    cut_every: float | None = None
    reset_every: float | None = None
    slow_every: float | None = None
    clock_every: float | None = None
    full_every: float | None = None
    eio_every: float | None = None
    """Between failing disks."""
    roll_every: float | None = None
    """Between controlled restarts."""
    operate_every: float | None = None
    down_max: float = 0.0
    pause_max: float = 0.0
    cut_max: float = 0.0
    one_way: float = 0.0

    @classmethod
    def draw(cls, random: Random) -> Rates:
        return cls(
            kill_every=_sometimes(random, 0.7, 6.0),
            power_every=_sometimes(random, 1.0, 6.0),
            site_every=_sometimes(random, 1.0, 8.0),
            pause_every=_sometimes(random, 1.0, 6.0),
            cut_every=_sometimes(random, 1.0, 6.0),
            reset_every=_sometimes(random, 0.5, 5.0),
            slow_every=_sometimes(random, 1.0, 6.0),
            clock_every=_sometimes(random, 0.5, 5.0),
            full_every=_sometimes(random, 3.0, 10.0) if random.random() < 0.4 else None,
            eio_every=_sometimes(random, 3.0, 10.0) if random.random() < 0.4 else None,
            roll_every=_sometimes(random, 2.0, 8.0),
            operate_every=_sometimes(random, 0.3, 3.0),
            down_max=random.choice((0.1, 0.5, 3.0)),
            pause_max=random.choice((0.2, 1.0, 3.0)),
            cut_max=random.choice((0.3, 1.5, 4.0)),
            one_way=random.random(),
        )


NO_FAULTS: Final = Rates()


@dataclass(frozen=True, slots=True)
class Plan:
    """One cluster and its load."""

    brokers: Sequence[int]
    controllers: Sequence[int]
    syncs_each_append: bool
    settings: Mapping[str, str]
    topics: Sequence[TopicPlan]
    """Those with producers."""
    has_mirror: bool
    """Whether there is also the mirror topic of a link."""
    has_transactions: bool
    """Whether there are also transfers, and a copy of the first topic, in transactions."""
    producers_max: int
    think_max: float
    disk_delay: float
    network_delay: float

    @property
    def nodes(self) -> list[int]:
        return sorted({*self.brokers, *self.controllers})

    @classmethod
    def draw(cls, random: Random) -> Plan:
        size = random.choice((1, 3, 3, 3, 3, 5))
        brokers = list(range(1, size + 1))
        controllers = brokers[: 1 if size == 1 else 3]
        if size == 3 and random.random() < 0.25:
            controllers = [101, 102, 103]
        factor = min(size, 3)
        syncs_each_append = random.random() < 0.4
        settings = {
            **_SETTINGS,
            "log.flush.interval.messages": "1" if syncs_each_append else str(1 << 60),
            "default.replication.factor": str(factor),
            "offsets.topic.replication.factor": str(factor),
            "min.insync.replicas": str(min(factor, MIN_IN_SYNC)),
            "transaction.state.log.replication.factor": str(factor),
            "transaction.state.log.min.isr": str(min(factor, MIN_IN_SYNC)),
            "transaction.state.log.num.partitions": random.choice(("1", "2")),
            "offsets.topic.num.partitions": random.choice(("1", "2")),
            "replica.fetch.wait.max.ms": random.choice(("100", "500")),
            "metadata.log.max.record.bytes.between.snapshots": random.choice(("2000", "20971520")),
        }
        topics = [
            TopicPlan("plain", random.choice((1, 2)), factor, {}),
            TopicPlan("compacted", 1, factor, _COMPACTED),
            TopicPlan("retained", 1, factor, _RETAINED),
            TopicPlan("unclean", 1, factor, {"unclean.leader.election.enable": "true"}),
        ]
        topics = [topics[0], *random.sample(topics[1:], random.randint(0, len(topics) - 1))]
        if size > REGIONS and random.random() < 0.7:
            topics.append(TopicPlan(OBSERVED, 1, -1, {CONSTRAINTS: random_constraints(random)}))
        return cls(
            brokers,
            controllers,
            syncs_each_append,
            settings,
            topics,
            has_mirror=random.random() < 0.4,
            has_transactions=random.random() < 0.35,
            producers_max=random.choice((1, 2, 3)),
            think_max=random.choice((0.3, 1.0, 2.5)),
            disk_delay=random.choice((0.001, 0.005, 0.03)),
            network_delay=random.choice((0.0005, 0.003, 0.02)),
        )

    def settings_of(self, node: int) -> dict[str, str]:
        """A node's server.properties."""
        is_broker, is_controller = node in self.brokers, node in self.controllers
        roles = [role for role, has in (("broker", is_broker), ("controller", is_controller)) if has]
        host = f"n{node}"
        listeners = [f"PLAINTEXT://{host}:{BROKER_PORT}"] if is_broker else []
        listeners += [f"CONTROLLER://{host}:{CONTROLLER_PORT}"] if is_controller else []
        return {
            **self.settings,
            "node.id": str(node),
            "process.roles": ",".join(roles),
            "listeners": ",".join(listeners),
            "controller.quorum.voters": ",".join(f"{each}@n{each}:{CONTROLLER_PORT}" for each in self.controllers),
            "broker.rack": f"r{node % REGIONS}",
        }


_SETTINGS: Final = {
    "controller.listener.names": "CONTROLLER",
    "log.dirs": "/data",
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.fetch.timeout.ms": "900",
    "controller.quorum.election.backoff.max.ms": "200",
    "controller.quorum.request.timeout.ms": "900",
    "broker.session.timeout.ms": str(SESSION_MS),
    "broker.heartbeat.interval.ms": "300",
    "replica.lag.time.max.ms": "800",
    "replica.fetch.backoff.ms": "100",
    "replica.socket.timeout.ms": "1500",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "leader.imbalance.check.interval.seconds": "1",
    "unclean.leader.election.interval.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "request.timeout.ms": "1500",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "300",
    "log.cleaner.backoff.ms": "700",
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "replica.high.watermark.checkpoint.interval.ms": "700",
    "initial.broker.registration.timeout.ms": "120000",
}
_COMPACTED: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "internal.segment.bytes": "1500",
    "delete.retention.ms": "1000",
    "file.delete.delay.ms": "300",
}
_RETAINED: Final = {
    "retention.bytes": "4000",
    "internal.segment.bytes": "1500",
    "file.delete.delay.ms": "300",
}


def random_constraints(random: Random) -> str:
    """A replica in each of two regions of five brokers, and one or two observers."""
    observers = random.choice((["r0"], ["r1"], ["r0", "r2"]))
    constraints: dict[str, Any] = {
        "version": 2,
        "replicas": [{"count": 1, "constraints": {"region": region}} for region in ("r1", "r2")],
        "observers": [{"count": 1, "constraints": {"region": region}} for region in observers],
    }
    policy = random.choice(list(Promotion))
    if policy is not Promotion.NEVER:
        constraints["observerPromotionPolicy"] = policy.value
    return json.dumps(constraints)


def _sometimes(random: Random, shortest: float, longest: float) -> float | None:
    return None if random.random() < 0.5 else random.uniform(shortest, longest)
