"""The links, settings and mirror topics that the destination describes. Workers read them every second and store nothing."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from isthmus_client.admin.links import describe_links
from isthmus_client.admin.mirrors import describe_mirrors
from isthmus_client.client import Client
from isthmus_client.metadata import TopicPartition
from isthmus_client.work_sharing import Share
from isthmus_model.endpoints import parse_bootstrap
from isthmus_wire.extensions.links import DescribedLink, DescribedTask, LinkState
from isthmus_wire.extensions.mirrors import DescribedMirror, MirrorState

from isthmus_linker.core.settings import LinkSettings
from isthmus_linker.edge.copier import Assignment

logger = logging.getLogger(__name__)

_COPIED = frozenset({MirrorState.ACTIVE, MirrorState.PENDING_STOPPED})
_WATCHED = _COPIED | {MirrorState.SOURCE_UNAVAILABLE}


@dataclass(frozen=True, slots=True)
class LinkPlan:
    """One link as the destination describes it."""

    link_id: UUID
    name: str
    source_cluster_id: str
    settings: LinkSettings
    state: str
    error: str
    error_message: str
    tasks: tuple[DescribedTask, ...]
    mirrors: tuple[DescribedMirror, ...]

    @property
    def copied(self) -> list[DescribedMirror]:
        """The mirror topics whose records are copied now."""
        return [] if self.settings.paused else [mirror for mirror in self.mirrors if mirror.state in _COPIED]

    @property
    def watched(self) -> list[DescribedMirror]:
        """The mirror topics whose source is checked."""
        return [] if self.settings.paused else [mirror for mirror in self.mirrors if mirror.state in _WATCHED]

    def in_state(self, state: MirrorState) -> list[str]:
        """Mirror topics by state."""
        return [mirror.topic for mirror in self.mirrors if mirror.state == state]

    def assignments(self, share: Share) -> list[Assignment]:
        """The partitions that a worker with this share copies."""
        return [
            Assignment(
                TopicPartition(mirror.source_topic, index),
                mirror.source_topic_id,
                TopicPartition(mirror.topic, index),
                mirror.topic_id,
                mirror.state_since_ms,
            )
            for mirror in self.copied
            for index in range(mirror.partitions)
            if share.holds_partition(mirror.topic, index)
        ]


async def read_plans(client: Client) -> dict[UUID, LinkPlan]:
    """Every link; raises ClientError."""
    links = await describe_links(client)
    mirrors = await describe_mirrors(client) if links else []
    plans = (_plan(link, mirrors) for link in links)
    return {plan.link_id: plan for plan in plans if plan is not None}


def _plan(link: DescribedLink, mirrors: Iterable[DescribedMirror]) -> LinkPlan | None:
    assert link.link_id is not None, "a link that exists has an id"
    values = {config.name: config.value or "" for config in link.configs}
    changed = frozenset(config.name for config in link.configs if not config.is_default)
    try:
        settings = LinkSettings.of(values, changed)
        parse_bootstrap(settings.bootstrap)
    except (KeyError, ValueError) as error:
        logger.error("link %s: invalid link settings: %s", link.name, error)
        return None
    return LinkPlan(
        link.link_id,
        link.name,
        link.source_cluster_id,
        settings,
        link.state if link.state != LinkState.PAUSED else LinkState.ACTIVE,
        link.link_error,
        link.link_error_message,
        link.tasks,
        tuple(mirror for mirror in mirrors if mirror.link_id == link.link_id),
    )
