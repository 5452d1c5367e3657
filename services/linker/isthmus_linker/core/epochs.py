"""The margin of a mirror partition's leader epoch above its source's.

A consumer that fails over must never see a lower epoch (KIP-1279), and the destination refuses batches of an epoch above its own.
"""

from isthmus_linker.core.limits import EPOCH_MARGIN, EPOCH_MARGIN_LEAST


def epoch_floor(source_epoch: int, destination_epoch: int) -> int | None:
    """The epoch to raise the destination's to; None while the margin is large enough."""
    if destination_epoch >= source_epoch + EPOCH_MARGIN_LEAST:
        return None
    return source_epoch + EPOCH_MARGIN
