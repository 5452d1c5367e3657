"""Aborts transactions that were open at the source when its mirror topic was stopped: the source can no longer end them here."""

from isthmus_model.clocks import WallMs
from isthmus_wire.markers import Marker, ProducerId, build_marker
from isthmus_wire.records import header_at

from isthmus_broker.core.links.stop import Stop
from isthmus_broker.core.log.placement import Batch, place
from isthmus_broker.core.replica.log_view import ReplicaLog


def abort_markers(log: ReplicaLog, index: int, stop: Stop, leader_epoch: int, now_ms: WallMs) -> list[Batch]:
    """Abort markers, placed at the log end, so that the last stable offset can advance.

    Only records below the first epoch of clients' writes come from the source. Every new leader checks again, because an earlier one may
    have failed before the markers were committed. Partitions that were added later have no records of the source.
    """
    if index >= stop.partitions:
        return []
    clients_from = next((start for epoch, start in log.epochs.entries if epoch >= stop.leader_epoch), log.end_offset)
    markers: list[Batch] = []
    for offset, producer in enumerate(log.producers.opened_before(clients_from), log.end_offset):
        marker = Marker(
            ProducerId(producer.producer_id, producer.epoch),
            committed=False,
            coordinator_epoch=max(producer.coordinator_epoch, 0),
        )
        batch = bytearray(build_marker(marker, now_ms))
        markers.append((batch, place(batch, header_at(batch), offset, leader_epoch)))
    return markers
