"""How far a mirror partition's leader epoch stays above its source's.

A consumer that fails over must never see an epoch go back (KIP-1279), and the destination refuses batches of an epoch above its own.
"""

from isthmus_linker.core.limits import EPOCH_MARGIN, EPOCH_MARGIN_LEAST


def epoch_floor(source_epoch: int, destination_epoch: int) -> int | None:
    """What the destination's epoch has to be raised to; None while it is far enough above."""
    if destination_epoch >= source_epoch + EPOCH_MARGIN_LEAST:
        return None
    return source_epoch + EPOCH_MARGIN
