"""Shares: every piece of work has exactly one holder, and malformed bytes hold everything."""

import pytest
from isthmus_client.work_sharing import Share, decode_share, encode_share


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
