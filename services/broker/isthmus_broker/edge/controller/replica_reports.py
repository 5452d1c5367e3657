"""Reports to the controller the directories of this broker's replicas.

Differences between the image and the directories are reported until the image is correct.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final
from uuid import UUID

from isthmus_wire.entities import entity
from kio.schema.assign_replicas_to_dirs.v0 import request as assign

from isthmus_broker.core.metadata.image import ClusterImage, directory_of
from isthmus_broker.core.metadata.result import ControllerContext
from isthmus_broker.core.metadata.schema import PartitionRecord
from isthmus_broker.edge.background import background
from isthmus_broker.edge.controller.controller_channel import ControllerChannel, ControllerUnreachable
from isthmus_broker.edge.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

REPORTED_MAX: Final = 5_000
"""Replicas in one report; the rest follows when the image includes these."""
RETRY_SECONDS: Final = 1.0


class ReplicaReports:
    """At most one report is in flight."""

    def __init__(
        self,
        controller: ControllerChannel,
        context: Callable[[], ControllerContext],
        logs: LogManager,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._controller = controller
        self._context = context
        self._logs = logs
        self._broker_epoch = broker_epoch
        self._task: asyncio.Task[None] | None = None
        self._image: ClusterImage | None = None

    def update(self, image: ClusterImage) -> None:
        """Report the replicas that this image places in a wrong directory."""
        self._image = image
        if self._task is None and any(self._misplaced(image)):
            self._task = background(self._run())

    def stop(self) -> None:
        """Stop reporting."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            while (image := self._image) is not None:
                misplaced = list(self._misplaced(image))
                if not misplaced:
                    return
                self._image = None
                try:
                    await self._send(self._assignment(misplaced[:REPORTED_MAX]))
                except ControllerUnreachable:
                    await asyncio.sleep(RETRY_SECONDS)
                    self._image = self._image or image
        finally:
            self._task = None

    async def _send(self, request: object) -> None:
        response = await self._controller.send(request)
        if response.error_code.value:
            logger.warning("the controller refused a report of replica directories: %s", response.error_code.name)

    def _mine(self, image: ClusterImage) -> Iterator[tuple[str, UUID, PartitionRecord]]:
        for topic, index in self._logs.logs:
            entry = image.topics.named(topic)
            partition = None if entry is None else entry.partitions.get(index)
            if entry is not None and partition is not None and self._context().node.node_id in partition.replicas:
                yield topic, entry.id, partition

    def _misplaced(self, image: ClusterImage) -> Iterator[tuple[UUID, UUID, int]]:
        """(directory, topic, partition) of replicas that are in another directory than in the image."""
        node_id = self._context().node.node_id
        for topic, topic_id, partition in self._mine(image):
            home = self._logs.home[topic, partition.partition_id].directory_id
            if directory_of(partition, node_id) != home:
                yield home, topic_id, partition.partition_id

    def _assignment(self, misplaced: list[tuple[UUID, UUID, int]]) -> assign.AssignReplicasToDirsRequest:
        by_directory: dict[UUID, dict[UUID, list[int]]] = defaultdict(lambda: defaultdict(list))
        for directory, topic_id, index in misplaced:
            by_directory[directory][topic_id].append(index)
        directories = tuple(
            entity(
                assign.DirectoryData,
                id_=directory,
                topics=tuple(
                    entity(
                        assign.TopicData,
                        topic_id=topic_id,
                        partitions=tuple(entity(assign.PartitionData, partition_index=index) for index in indexes),
                    )
                    for topic_id, indexes in topics.items()
                ),
            )
            for directory, topics in by_directory.items()
        )
        node_id, epoch = self._context().node.node_id, self._broker_epoch()
        return entity(
            assign.AssignReplicasToDirsRequest, broker_id=node_id, broker_epoch=epoch, directories=directories
        )
