"""When to retry, and after what delay."""

import asyncio

import pytest
from isthmus_client.client import Client
from isthmus_client.coordinators import Coordinated
from isthmus_client.errors import ClientError, ConnectionFailed, GaveUp, NotSupported, Refused, RequestTimedOut
from isthmus_client.metadata import Broker
from isthmus_client.retry import Backoff, Stale, is_retriable, stale_after
from isthmus_model.endpoints import Endpoint
from isthmus_wire.errors import ErrorCode


class Middle:
    """No jitter."""

    def uniform(self, a: float, b: float, /) -> float:
        return (a + b) / 2


class Highest:
    """All the jitter there is."""

    def uniform(self, a: float, b: float, /) -> float:
        return b


def test_the_delay_doubles_up_to_its_bound() -> None:
    backoff = Backoff(first=0.5, most=3.0, jitter=0.2)
    assert [backoff.delay(failures, Middle()) for failures in (1, 2, 3, 4, 5000)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert backoff.delay(9, Highest()) == pytest.approx(3.6)


@pytest.mark.parametrize(
    ("error", "retriable", "stale"),
    [
        (Refused(ErrorCode.not_leader_or_follower, "t-0"), True, Stale.METADATA),
        (Refused(ErrorCode.fenced_leader_epoch, "t-0"), True, Stale.METADATA),
        (Refused(ErrorCode.not_coordinator, "g"), True, Stale.COORDINATOR),
        (Refused(ErrorCode.coordinator_load_in_progress, "g"), True, Stale.NOTHING),
        (Refused(ErrorCode.throttling_quota_exceeded, "t"), True, Stale.NOTHING),
        (Refused(ErrorCode.message_too_large, "t-0"), False, Stale.NOTHING),
        (Refused(ErrorCode.topic_already_exists, "t"), False, Stale.NOTHING),
        (ConnectionFailed("gone"), True, Stale.METADATA),
        (RequestTimedOut("slow"), True, Stale.METADATA),
        (NotSupported("old"), False, Stale.NOTHING),
        (ClientError("closed"), False, Stale.NOTHING),
        (ValueError("a bug"), False, Stale.NOTHING),
    ],
)
def test_retriable_errors_and_what_they_make_stale(error: Exception, retriable: bool, stale: Stale) -> None:
    assert is_retriable(error) is retriable
    assert stale_after(error) is stale


def test_an_operation_that_gives_up_still_forgets_the_stale_coordinator() -> None:
    """Otherwise the next operation would be sent to the old coordinator again; operations with time for one attempt would never succeed."""

    async def refuse() -> None:
        raise Refused(ErrorCode.not_coordinator, "group g")

    async def give_up() -> dict[Coordinated, Broker]:
        client = Client([Endpoint("host", 9092)], operation_seconds=0.0)
        client._coordinators["g"] = Broker(1, "host", 9092)
        with pytest.raises(GaveUp):
            await client.retry("commit", refuse, ["g"])
        return client._coordinators

    assert asyncio.run(give_up()) == {}
