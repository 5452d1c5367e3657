"""Transactions that a source left open when its copy became a topic of its own: nobody there can end them any more."""

from isthmus_model.clocks import Now
from isthmus_wire.markers import Marker, ProducerId, build_marker
from isthmus_wire.records import header_at

from isthmus_broker.core.links.stop import Stop
from isthmus_broker.edge.storage.log import Log


def abort_open_transactions(log: Log, index: int, stop: Stop, leader_epoch: int, now: Now) -> int:
    """Append abort markers for them, so that the last stable offset can move on; returns how many there were.

    Only what lies below the first epoch of clients' writes is the source's. Every leader looks again, because the one that was to write the
    markers may have been lost before they were committed. Partitions that came later hold nothing of the source.
    """
    if index >= stop.partitions:
        return 0
    own_from = next((start for epoch, start in log.epochs.entries if epoch >= stop.leader_epoch), log.end_offset)
    left = log.producers.opened_before(own_from)
    for producer in left:
        ended = Marker(
            ProducerId(producer.producer_id, producer.epoch),
            committed=False,
            coordinator_epoch=max(producer.coordinator_epoch, 0),
        )
        marker = bytearray(build_marker(ended, now.wall))
        log.append_as_leader(marker, header_at(marker), leader_epoch, now.monotonic)
    return len(left)
