"""Queries of links and mirror topics over a committed image."""

from __future__ import annotations

from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.links import (
    DescribedConfig,
    DescribedLink,
    DescribedTask,
    DescribeLinksRequest,
    DescribeLinksResponse,
    LinkError,
    LinkState,
)
from isthmus_wire.extensions.mirrors import (
    DescribedMirror,
    DescribeMirrorsRequest,
    DescribeMirrorsResponse,
    MirrorError,
)

from isthmus_broker.core.links.settings import LINK_CONFIGS
from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.metadata.links import Link, Mirror, link_named, links_of, mirror_of, mirrors_of, state_under


def describe_links(image: ClusterImage, request: DescribeLinksRequest) -> DescribeLinksResponse:
    """Links with everything known of them, but no secrets."""
    names = [link.name for link in links_of(image)] if request.names is None else request.names
    topics: dict[str, list[str]] = {}
    for mirror in mirrors_of(image):
        topics.setdefault(str(mirror.link_id), []).append(mirror.topic)
    links = []
    for name in names:
        link = link_named(image, name)
        links.append(_no_link(name) if link is None else _link(link, tuple(topics.get(str(link.id), ()))))
    return DescribeLinksResponse(links=tuple(links))


def _link(link: Link, topics: tuple[str, ...]) -> DescribedLink:
    return DescribedLink(
        name=link.name,
        error_code=ErrorCode.none,
        link_id=link.id,
        source_cluster_id=link.source_cluster_id,
        state=link.state,
        link_error=link.error,
        link_error_message=link.error_message,
        configs=tuple(
            DescribedConfig(
                name=name,
                value=None if definition.sensitive else link.settings.get(name, definition.default_text),
                is_default=name not in link.settings,
                is_sensitive=definition.sensitive,
            )
            for name, definition in LINK_CONFIGS.items()
        ),
        tasks=tuple(
            DescribedTask(name=name, state=task.state, error=task.error, error_message=task.error_message)
            for name, task in sorted(link.tasks.items())
        ),
        mirror_topics=topics,
    )


def _no_link(name: str) -> DescribedLink:
    return DescribedLink(
        name=name,
        error_code=ErrorCode.resource_not_found,
        link_id=None,
        source_cluster_id="",
        state=LinkState.UNKNOWN,
        link_error=LinkError.NO_ERROR,
        link_error_message="",
        configs=(),
        tasks=(),
        mirror_topics=(),
    )


def describe_mirrors(image: ClusterImage, request: DescribeMirrorsRequest) -> DescribeMirrorsResponse:
    """Mirror topics of existing links; an error for a named topic that is not one."""
    links = {link.id: link for link in links_of(image) if request.link_name in (None, link.name)}
    if request.topics is None:
        mirrors = [mirror for mirror in mirrors_of(image) if mirror.link_id in links]
        return DescribeMirrorsResponse(
            mirrors=tuple(_mirror(image, mirror, links[mirror.link_id]) for mirror in mirrors)
        )
    described = []
    for topic in sorted(request.topics):
        named = mirror_of(image, topic)
        link = None if named is None else links.get(named.link_id)
        described.append(_no_mirror(topic) if named is None or link is None else _mirror(image, named, link))
    return DescribeMirrorsResponse(mirrors=tuple(described))


def _mirror(image: ClusterImage, mirror: Mirror, link: Link) -> DescribedMirror:
    return DescribedMirror(
        topic=mirror.topic,
        error_code=ErrorCode.none,
        topic_id=mirror.topic_id,
        link_name=link.name,
        link_id=link.id,
        source_topic=mirror.source_topic,
        source_topic_id=mirror.source_topic_id,
        partitions=len(image.topics.by_id[mirror.topic_id].partitions),
        state=state_under(link, mirror),
        mirror_error=mirror.error,
        mirror_error_message=mirror.error_message,
        state_since_ms=mirror.since_ms,
    )


def _no_mirror(topic: str) -> DescribedMirror:
    return DescribedMirror(
        topic=topic,
        error_code=ErrorCode.unknown_topic_or_partition,
        topic_id=None,
        link_name="",
        link_id=None,
        source_topic="",
        source_topic_id=None,
        partitions=0,
        state="",
        mirror_error=MirrorError.NO_ERROR,
        mirror_error_message="",
        state_since_ms=-1,
    )
