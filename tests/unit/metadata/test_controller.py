"""The controller as a state machine: any log that it writes results in its image again, and its invariants hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from isthmus_broker.core.metadata.brokers import fence_dead_broker
from isthmus_broker.core.metadata.history import ImageHistory
from isthmus_broker.core.metadata.image import EMPTY_IMAGE, ClusterImage, is_active, snapshot
from isthmus_broker.core.metadata.records import decode_record, encode_record
from isthmus_broker.core.metadata.replay import replay_all
from isthmus_broker.core.metadata.result import ControllerError
from isthmus_broker.core.metadata.schema import MetadataRecord
from isthmus_wire.errors import ErrorCode

from tests.unit.metadata.cluster import Cluster, creation, new_topic, refused
from tests.unit.metadata.test_brokers import heartbeat
from tests.unit.metadata.test_configs import APPEND, DELETE, SET, TOPIC, operations
from tests.unit.metadata.test_partitions import election, proposal, reassignment
from tests.unit.metadata.test_topics import addition, deletion

BROKERS = (1, 2, 3, 4)


class Recording(Cluster):
    """A cluster that keeps the bytes of everything it appends."""

    def __init__(self, brokers: Sequence[int]) -> None:
        self.log: list[bytes] = []
        super().__init__(brokers)

    def append(self, records: Any) -> None:
        self.log += [encode_record(record) for record in records]
        super().append(records)


def check(image: ClusterImage) -> None:
    for topic_id, topic in image.topics.by_id.items():
        assert image.topics.ids[topic.name] == topic_id
        assert sorted(topic.partitions) == list(range(len(topic.partitions)))
        for partition in topic.partitions.values():
            isr, elr = set(partition.isr), set(partition.eligible_leader_replicas or ())
            assert isr | elr <= set(partition.replicas)
            assert not isr & elr
            assert len(partition.directories) == len(partition.replicas)
            if partition.leader != -1:
                assert partition.leader in isr
                assert is_active(image.brokers.get(partition.leader))
    assert len(image.topics.ids) == len(image.topics.by_id)


def act(cluster: Cluster, data: st.DataObject) -> None:
    broker = data.draw(st.sampled_from(BROKERS))
    some = data.draw(st.lists(st.sampled_from(BROKERS), min_size=1, max_size=3, unique=True).map(tuple))
    name = data.draw(st.sampled_from("ab"))
    action = data.draw(st.integers(0, 9))
    if action == 0:
        cluster.response_to(creation(new_topic(name, 2, len(some))))
    elif action == 1:
        cluster.response_to(deletion((name, None)))
    elif action == 2:
        cluster.response_to(addition((name, data.draw(st.integers(1, 4)), None)))
    elif action == 3:
        key, operation, value = data.draw(
            st.sampled_from(
                [
                    ("min.insync.replicas", SET, "2"),
                    ("min.insync.replicas", DELETE, None),
                    ("cleanup.policy", APPEND, "compact"),
                ]
            )
        )
        cluster.response_to(operations((TOPIC, name, [(key, operation, value)])))
    elif action == 4 and not cluster.image.brokers[broker].fenced:
        epoch = cluster.image.brokers[broker].broker_epoch
        fencing = fence_dead_broker(cluster.image, cluster.context, cluster.sessions, broker, epoch)
        cluster.append(fencing.records)
    elif action == 5:
        heartbeat(cluster, broker)
    elif action == 6 and "a" in cluster.image.topics.ids:
        leader = cluster.partition("a").leader
        if leader in cluster.image.brokers:
            proposal(cluster, (leader, *(r for r in some if r != leader)), leader)
    elif action == 7:
        cluster.response_to(election(data.draw(st.integers(0, 1)), everything=True))
    elif action == 8:
        cluster.response_to(reassignment((0, some), name=name))
    else:
        cluster.response_to(reassignment((0, None), name=name))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_the_log_rebuilds_the_image_and_the_invariants_hold(data: st.DataObject) -> None:
    cluster = Recording(BROKERS)
    for _ in range(data.draw(st.integers(1, 25))):
        act(cluster, data)
        check(cluster.image)
    standby = ImageHistory()
    standby.append([decode_record(value) for value in cluster.log], len(cluster.log) - 1)
    assert standby.latest == cluster.image
    written: list[MetadataRecord] = [decode_record(encode_record(record)) for record in snapshot(cluster.image)]
    assert replay_all(EMPTY_IMAGE, written) == cluster.image


def test_a_request_that_is_refused_as_a_whole_says_so_everywhere() -> None:
    why = ControllerError(ErrorCode.not_controller, "elsewhere")
    answer = refused(creation(new_topic("a"), new_topic("b")), why)
    assert [(t.name, t.error_code, t.error_message) for t in answer.topics] == [
        ("a", ErrorCode.not_controller, "elsewhere"),
        ("b", ErrorCode.not_controller, "elsewhere"),
    ]
    deleted = refused(deletion(("a", None), names=["b"]), why)
    assert [(t.name, t.error_code) for t in deleted.responses] == [
        ("b", ErrorCode.not_controller),
        ("a", ErrorCode.not_controller),
    ]
    added = refused(addition(("a", 2, None)), why)
    assert [(t.name, t.error_code) for t in added.results] == [("a", ErrorCode.not_controller)]
    altered = refused(operations((TOPIC, "a", [])), why)
    assert [(r.resource_name, r.error_code) for r in altered.responses] == [("a", ErrorCode.not_controller)]
    elected = refused(election(0, ("a", (0, 1))), why)
    (result,) = elected.replica_election_results
    assert [p.error_code for p in result.partition_result] == [ErrorCode.not_controller] * 2
    assert refused(reassignment((0, None)), why).error_code is ErrorCode.not_controller
