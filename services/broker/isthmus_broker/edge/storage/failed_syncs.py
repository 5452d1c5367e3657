"""What was readable, but would not survive a power failure, since its sync failed: the next start makes it durable after all.

Linux reports a failed sync once and then counts the pages as written: they stay readable, and no later sync writes them. A node that is
started again without a reboot would read them, count them as durable, and lose them in the next power failure, with everything after
them. So whatever notices the failure leaves an empty file beside the one whose sync failed (`files.record_failed_sync`).
"""

import logging
from contextlib import suppress
from pathlib import Path
from typing import Final

from isthmus_broker.edge.storage.files import FAILED_SYNC_SUFFIX, write_all
from isthmus_broker.edge.storage.filesystem import FileSystem

logger = logging.getLogger(__name__)

_CHUNK: Final = 1024 * 1024


def rewrite_failed_syncs(files: FileSystem, directory: Path) -> None:
    """Write the files of a directory whose sync failed again, in place, and sync them; raises OSError if the disk still fails."""
    for record in [path for path in files.list(directory) if path.suffix == FAILED_SYNC_SUFFIX]:
        path = record.with_suffix("")
        with suppress(FileNotFoundError):  # it was deleted since
            _rewrite(files, path)
            logger.warning("%s was written again: its last sync had failed", path)
        files.remove(record)


def _rewrite(files: FileSystem, path: Path) -> None:
    descriptor = files.open(str(path), create=False)
    try:
        position = 0
        while data := files.read(descriptor, _CHUNK, position):
            position += write_all(files, descriptor, [data], position)
        files.truncate(descriptor, position)
        files.sync(descriptor)
    finally:
        files.close(descriptor)
