"""Requests of operators: reassignments and their cancellation, placement constraints, elections, deletion of old records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from isthmus_broker.core.metadata.partitions import PREFERRED_ELECTION, UNCLEAN_ELECTION
from isthmus_model.config_resources import ResourceType
from isthmus_wire.entities import entity
from kio.schema.alter_partition_reassignments.v1 import request as reassign
from kio.schema.create_topics.v7.request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kio.schema.elect_leaders.v2 import request as elect
from kio.schema.incremental_alter_configs.v1 import request as alter

from tests.sim.replication.quorum import Quorum, ignore
from tests.sim.replication.rates import Plan, TopicPlan, random_constraints

if TYPE_CHECKING:
    from tests.sim.replication.broker import SimBroker
    from tests.sim.replication.checkers.truth import CommittedStays

SET = 0


class Operators:
    def __init__(self, plan: Plan, quorum: Quorum, brokers: dict[int, SimBroker], truth: CommittedStays) -> None:
        self._plan = plan
        self._quorum = quorum
        self._brokers = brokers
        self._truth = truth
        self._random = quorum.world.random

    def _submit(self, request: Any) -> None:
        controller = self._quorum.contact()
        if controller is not None:
            controller.log(f"gets {request}")
            controller.serve(request, ignore)

    def _some_topic(self) -> TopicPlan:
        return self._plan.topics[self._random.randrange(len(self._plan.topics))]

    def create_topics(self) -> None:
        topics = tuple(
            entity(
                CreatableTopic,
                name=topic.name,
                num_partitions=1,
                replication_factor=-1 if topic.constraints else topic.factor,
                assignments=(),
                configs=tuple(entity(CreatableTopicConfig, name=n, value=v) for n, v in topic.configs.items()),
            )
            for topic in self._plan.topics
        )
        self._submit(entity(CreateTopicsRequest, topics=topics, validate_only=False))

    def reassign(self) -> None:
        """Reassign a partition, or revert its reassignment."""
        topic = self._some_topic()
        brokers = sorted(self._brokers)
        cancels = self._random.random() < 0.3
        target = self._random.sample(brokers, 1 + self._random.randrange(min(4, len(brokers))))
        self.reassign_to(topic.name, None if cancels else target)

    def reassign_to(self, topic: str, target: Sequence[int] | None) -> None:
        replicas = None if target is None else tuple(target)
        partition = entity(reassign.ReassignablePartition, partition_index=0, replicas=replicas)
        self._submit(
            entity(
                reassign.AlterPartitionReassignmentsRequest,
                topics=(entity(reassign.ReassignableTopic, name=topic, partitions=(partition,)),),
            )
        )

    def constrain(self) -> None:
        """Change the placement constraints."""
        topic = self._some_topic()
        text = random_constraints(self._random, self._plan.racks, topic.min_isr)
        config = entity(alter.AlterableConfig, name="isthmus.placement.constraints", config_operation=SET, value=text)
        resource = entity(
            alter.AlterConfigsResource,
            resource_type=int(ResourceType.TOPIC),
            resource_name=topic.name,
            configs=(config,),
        )
        self._submit(entity(alter.IncrementalAlterConfigsRequest, resources=(resource,), validate_only=False))

    def elect(self) -> None:
        """Elect the preferred leader, or sometimes uncleanly where loss is allowed."""
        topic = self._some_topic()
        unclean = topic.unclean and self._random.random() < 0.3
        self.elect_leader(topic.name, unclean=unclean)

    def elect_leader(self, topic: str, *, unclean: bool) -> None:
        if unclean:
            self._truth.topics[topic].may_elect_uncleanly = True
        named = (entity(elect.TopicPartitions, topic=topic, partitions=(0,)),)
        kind = UNCLEAN_ELECTION if unclean else PREFERRED_ELECTION
        self._submit(entity(elect.ElectLeadersRequest, election_type=kind, topic_partitions=named))

    def retire(self) -> None:
        """Let a leader delete old records; its followers learn of it with their next fetch."""
        topic = self._some_topic()
        for _, broker in sorted(self._brokers.items()):
            held = broker.partitions.get(topic.name)
            if held is not None and held.is_led_here and not broker.is_paused:
                log, truth = held.sim_log, self._truth.topics[topic.name]
                start = log.log_start_offset
                if held.leadership.leader_epoch >= truth.unclean_epoch and not truth.awaits_unclean:
                    log.raise_start(start + self._random.randrange(max(log.high_watermark - start, 0) + 1))
                    truth.start = max(truth.start, log.log_start_offset)
