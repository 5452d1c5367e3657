"""Whether a link's source is reachable, and that link and mirror topics are reported consistently."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from isthmus_broker.core.links.settings import LINK_CONFIGS
from isthmus_client.client import Client
from isthmus_client.work_sharing import Share
from isthmus_linker.core.reachability import Health, SourceReachability
from isthmus_linker.core.settings import LinkSettings
from isthmus_linker.edge import link
from isthmus_linker.edge.budget import Budget
from isthmus_linker.edge.plan import LinkPlan
from isthmus_model.endpoints import Endpoint
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.links import LinkError, LinkState
from isthmus_wire.extensions.mirrors import DescribedMirror, MirrorAction, MirrorState

TIMED_OUT = Health(LinkState.UNAVAILABLE, LinkError.TIMEOUT_ERROR, "no response")
LINK, TOPIC = UUID(int=1), UUID(int=2)


def test_a_source_is_unreachable_after_consecutive_failures_and_reachable_at_once() -> None:
    source = SourceReachability()
    for _ in range(2):
        source.check_failed(LinkError.TIMEOUT_ERROR, "no response", 3)
    source.check_succeeded()
    for _ in range(2):
        source.check_failed(LinkError.TIMEOUT_ERROR, "no response", 3)
    assert source.health == Health()
    source.check_failed(LinkError.TIMEOUT_ERROR, "no response", 3)
    assert source.health == TIMED_OUT
    source.check_succeeded()
    assert source.health == Health()


def test_a_reachable_source_may_have_unresponsive_brokers() -> None:
    source = SourceReachability()
    source.unresponsive_brokers.add(1)
    trouble = "broker 1 of the source does not respond"
    assert source.health == Health(LinkState.ACTIVE, LinkError.TIMEOUT_ERROR, trouble)
    source.record_leaderless(["a-0", "b-0", "c-0", "d-0"])
    assert source.health.message.endswith("partition b-0 has no leader at the source; and 2 more")
    source.check_failed(LinkError.TIMEOUT_ERROR, "no response", 1)
    assert source.health == TIMED_OUT
    source.check_succeeded()
    source.record_leaderless([])
    source.unresponsive_brokers.clear()
    assert source.health == Health()


def test_mirror_topics_follow_the_link() -> None:
    source = SourceReachability()
    assert not source.may_report_mirrors
    source.check_failed(LinkError.TIMEOUT_ERROR, "no response", 1)
    assert (source.may_report_mirrors, source.health.mirror_action) == (True, MirrorAction.SOURCE_LOST)
    source.check_succeeded()
    assert (source.may_report_mirrors, source.health.mirror_action) == (True, MirrorAction.SOURCE_FOUND)
    source.wrong_cluster("the source is another cluster")
    assert (source.may_report_mirrors, source.health.mirror_action) == (False, None)


def test_a_source_lost_during_a_report_is_reported_alike_for_link_and_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reports: list[tuple[str, Any]] = []
    runner = link.LinkRunner(_plan(), Share(0, 1), Client([Endpoint("127.0.0.1", 1)]), Budget())

    async def report_link(client: Client, link_id: UUID, state: LinkState, *rest: object) -> None:
        reports.append(("link", state))
        runner.reachability.check_failed(LinkError.TIMEOUT_ERROR, "no response", 1)

    async def alter_mirrors(client: Client, action: MirrorAction, topics: list[str]) -> None:
        reports.append(("topics", action))

    monkeypatch.setattr(link, "report_link", report_link)
    monkeypatch.setattr(link, "alter_mirrors", alter_mirrors)
    runner.reachability.check_succeeded()
    runner.reachability.unresponsive_brokers.add(1)
    asyncio.run(runner._report())
    assert reports == [("link", LinkState.ACTIVE)]
    asyncio.run(runner._report())
    assert reports[1:] == [("link", LinkState.UNAVAILABLE), ("topics", MirrorAction.SOURCE_LOST)]


def _plan() -> LinkPlan:
    defaults = {name: one.default_text or "" for name, one in LINK_CONFIGS.items()} | {"bootstrap.servers": "a:1"}
    mirror = DescribedMirror(
        topic="orders",
        error_code=ErrorCode.none,
        topic_id=TOPIC,
        link_name="west",
        link_id=LINK,
        source_topic="orders",
        source_topic_id=TOPIC,
        state=MirrorState.ACTIVE,
        state_since_ms=0,
        mirror_error="NO_ERROR",
        mirror_error_message="",
        partitions=1,
    )
    settings = LinkSettings.of(defaults, frozenset())
    return LinkPlan(LINK, "west", "", settings, LinkState.ACTIVE, LinkError.NO_ERROR, "", (), (mirror,))
