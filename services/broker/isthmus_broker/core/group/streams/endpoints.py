"""Which partitions are materialised at which member's endpoint, for interactive queries."""

from collections.abc import Iterable, Iterator, Mapping

from kio.schema.streams_group_heartbeat.v0 import response as wire
from kio.schema.types import TopicName
from kio.static.primitive import i32, u16

from isthmus_broker.core.group.streams.configured import ConfiguredTopology
from isthmus_broker.core.group.streams.member import StreamsMember
from isthmus_broker.core.group.view import ClusterView


def endpoints_of(
    members: Iterable[StreamsMember], configured: ConfiguredTopology, view: ClusterView
) -> Iterator[wire.EndpointToPartitions]:
    """The members that have an endpoint, with the partitions of their tasks' source topics."""
    for member in members:
        if member.user_endpoint is None:
            continue
        endpoint = wire.Endpoint(host=member.user_endpoint.host, port=u16(member.user_endpoint.port))
        yield wire.EndpointToPartitions(
            user_endpoint=endpoint,
            active_partitions=tuple(_partitions(member.assigned.active, configured, view)),
            standby_partitions=tuple(_partitions(member.assigned.standby, configured, view)),
        )


def _partitions(
    tasks: Mapping[str, Iterable[int]], configured: ConfiguredTopology, view: ClusterView
) -> Iterator[wire.TopicPartition]:
    """A task has no partition of a source topic that has fewer partitions than there are tasks."""
    subtopologies = configured.subtopologies or {}
    for name in sorted(tasks.keys() & subtopologies.keys()):
        indexes = sorted(tasks[name])
        for source in subtopologies[name].all_sources:
            topic = view.topic(source)
            count = 0 if topic is None else topic.partitions
            existing = tuple(i32(index) for index in indexes if index < count)
            yield wire.TopicPartition(topic=TopicName(source), partitions=existing)
