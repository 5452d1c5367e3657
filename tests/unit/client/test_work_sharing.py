"""Shares: every piece of work has exactly one holder, and malformed bytes hold everything."""

import asyncio

import pytest
from isthmus_client.client import Client
from isthmus_client.work_sharing import Share, SharingMember, decode_share, encode_share
from isthmus_model.endpoints import Endpoint


@pytest.mark.parametrize("members", [1, 2, 3, 7])
def test_every_piece_has_one_holder(members: int) -> None:
    shares = [Share(number, members) for number in range(members)]
    for name in ("a", "b", "orders", "link-1"):
        assert sum(share.holds(name) for share in shares) == 1
        for partition in range(20):
            assert sum(share.holds_partition(name, partition) for share in shares) == 1


def test_the_partitions_of_a_topic_are_spread_evenly() -> None:
    held = [sum(Share(number, 4).holds_partition("orders", p) for p in range(16)) for number in range(4)]
    assert held == [4, 4, 4, 4]


def test_shares_round_trip() -> None:
    assert decode_share(encode_share(Share(2, 5)) + b"of a newer version") == Share(2, 5)


@pytest.mark.parametrize("data", [b"", b"\0\0", encode_share(Share(3, 3)), encode_share(Share(-1, 3))])
def test_malformed_bytes_hold_everything(data: bytes) -> None:
    assert decode_share(data) == Share(0, 1)


@pytest.mark.parametrize(("other", "warnings"), [(b"orders", 0), (b"payments", 1)])
def test_members_with_different_work_are_named(other: bytes, warnings: int, caplog: pytest.LogCaptureFixture) -> None:
    """Of topics that only one of them knew, half of the partitions were not copied, and nothing said so."""
    member = SharingMember(Client([Endpoint("localhost", 1)]), "g", "p", b"orders")
    assigned = asyncio.run(member.assign_members({"a": member.subscription(), "b": other}))
    assert [decode_share(assigned[each]) for each in "ab"] == [Share(0, 2), Share(1, 2)]
    assert len(caplog.messages) == warnings
    assert all("group g have different settings" in message for message in caplog.messages)
