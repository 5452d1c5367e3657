"""How Metadata responses update the cached metadata."""

from types import SimpleNamespace as Answer
from typing import Any
from uuid import UUID

from isthmus_client.metadata import Broker, ClusterView, TopicPartition, by_topic
from isthmus_wire.errors import ErrorCode

FIRST, SECOND = UUID(int=1), UUID(int=2)
T0 = TopicPartition("t", 0)


def partition(leader: int, epoch: int, index: int = 0) -> Any:
    return Answer(
        partition_index=index,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=(1, 2),
        isr_nodes=(1,),
        offline_replicas=(),
        error_code=ErrorCode.none,
    )


def topic(*partitions: Any, topic_id: UUID = FIRST, error: ErrorCode = ErrorCode.none, name: str | None = "t") -> Any:
    return Answer(name=name, topic_id=topic_id, is_internal=False, partitions=partitions, error_code=error)


def response_of(*topics: Any) -> Any:
    brokers = [Answer(node_id=n, host="h", port=n, rack=None) for n in (1, 2)]
    return Answer(brokers=brokers, cluster_id="c", controller_id=1, topics=topics)


def test_a_leader_never_returns_to_an_older_epoch() -> None:
    view = ClusterView().merged(response_of(topic(partition(leader=1, epoch=5))))
    behind = view.merged(response_of(topic(partition(leader=2, epoch=4))))
    ahead = behind.merged(response_of(topic(partition(leader=2, epoch=6))))
    leaders = [(p.leader, p.leader_epoch) for one in (behind, ahead) if (p := one.leader(T0)) is not None]
    assert leaders == [(1, 5), (2, 6)]


def test_a_recreated_topic_starts_with_its_own_epochs() -> None:
    view = ClusterView().merged(response_of(topic(partition(leader=1, epoch=5))))
    again = view.merged(response_of(topic(partition(leader=2, epoch=0), topic_id=SECOND)))
    found = again.leader(T0)
    assert found is not None
    assert (found.leader, found.leader_epoch) == (2, 0)
    assert again.names == {SECOND: "t"}


def test_a_response_without_epochs_wins() -> None:
    view = ClusterView().merged(response_of(topic(partition(leader=1, epoch=-1))))
    found = view.merged(response_of(topic(partition(leader=2, epoch=-1)))).leader(T0)
    assert found is not None
    assert found.leader == 2


def test_a_deleted_topic_is_refused_until_it_is_recreated() -> None:
    view = ClusterView().merged(response_of(topic(partition(1, 0))))
    gone = view.merged(response_of(topic(error=ErrorCode.unknown_topic_or_partition)))
    assert gone.topics == {}
    assert gone.refused == {"t": ErrorCode.unknown_topic_or_partition}
    back = gone.merged(response_of(topic(partition(1, 0))))
    assert list(back.topics) == ["t"]
    assert back.refused == {}


def test_unrequested_topics_stay_unless_all_were_requested() -> None:
    view = ClusterView().merged(response_of(topic(partition(1, 0))))
    assert list(view.merged(response_of()).topics) == ["t"]
    assert list(view.merged(response_of(), all_topics=True).topics) == []


def test_a_response_without_brokers_keeps_the_current_ones() -> None:
    view = ClusterView().merged(response_of())
    empty = Answer(brokers=(), cluster_id=None, controller_id=-1, topics=())
    assert view.merged(empty).brokers == {1: Broker(1, "h", 1), 2: Broker(2, "h", 2)}
    assert view.merged(empty).cluster_id == "c"


def test_a_newer_leader_sent_with_an_error_is_applied() -> None:
    view = ClusterView().merged(response_of(topic(partition(leader=1, epoch=5))))
    assert view.with_leader(T0, 2, 5) is view
    assert view.with_leader(T0, 7, 6) is view  # broker 7's address is unknown
    assert view.with_leader(TopicPartition("u", 0), 2, 6) is view
    moved = view.with_leader(T0, 2, 6).leader(T0)
    assert moved is not None
    assert (moved.leader, moved.leader_epoch, moved.replicas) == (2, 6, (1, 2))


def test_grouping_by_topic_is_in_order() -> None:
    mixed = [TopicPartition("b", 1), TopicPartition("a", 2), TopicPartition("b", 0)]
    assert by_topic(mixed) == {"a": [2], "b": [0, 1]}
