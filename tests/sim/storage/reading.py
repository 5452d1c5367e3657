"""What a log contains, read after a start, and the producer state that must follow from it."""

from isthmus_broker.edge.storage.log import Log
from isthmus_wire.records import checksum_matches

from tests.sim.storage.truth import Batch, Content, Truth, producers_of
from tests.sim.world import Violation


def content_of(log: Log) -> Content:
    """Everything that a log has, read batch by batch."""
    batches = []
    for segment, placed in log.placed_batches(log.log_start_offset):
        data = segment.read(placed.position, placed.header.size)
        if not checksum_matches(data, placed.header):
            raise Violation(f"batches: {log.topic} has a damaged one at {placed.header.base_offset}")
        batches.append(Batch(placed.header, data))
    return Content(log.segments[0].base_offset, log.log_start_offset, log.end_offset, batches, list(log.epochs.entries))


def check_producers(truth: Truth, log: Log, content: Content) -> None:
    """Compare the producer state with the one that follows from the batches that were appended, for producers that still have one."""
    state, aborted = producers_of(truth.current.batches)
    batches = [batch for batch in truth.current.batches if batch.end > log.log_start_offset]
    for batch in content.batches:
        producer = batch.header.producer_id
        if producer < 0 or batch.header.is_control:
            continue
        expected, actual = state.producers[producer], log.producers.producers.get(producer)
        if actual is None or actual.last_sequence != expected.last_sequence:
            raise Violation(f"producers: {truth.name}: producer {producer} is {actual}, not {expected}")
    if truth.compacts:
        return
    first = state.first_open_offset()
    if first is not None and first >= log.log_start_offset and log.producers.first_open_offset() != first:
        raise Violation(
            f"producers: {truth.name}: the first open transaction is {log.producers.first_open_offset()}, not {first}"
        )
    stored = {
        (row.producer_id, row.last_offset): row for row in log.aborted_between(log.log_start_offset, log.end_offset)
    }
    for row in aborted:
        kept = stored.pop((row.producer_id, row.last_offset), None)
        read = [
            batch.header.base_offset
            for batch in batches
            if batch.header.producer_id == row.producer_id and row.first_offset < batch.end <= row.last_offset
        ]
        if read and (kept is None or not row.first_offset <= kept.first_offset <= read[0]):
            raise Violation(f"producers: {truth.name}: the aborted transaction {row} is recorded as {kept}")
    if stored:
        raise Violation(f"producers: {truth.name}: {stored.values()} were not aborted")
