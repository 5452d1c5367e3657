"""Divide work among the processes of a service: a classic group that assigns each member its number and the member count.

Every member computes from these which work is its own (`Share.holds`), so only a change of members causes a rebalance, not a change of
work. For a moment two members may hold the same work, or no member may: the work must be safe to do twice.
"""

import logging
import struct
import zlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from isthmus_client.classic_member import ClassicMember, Terms
from isthmus_client.client import Client

logger = logging.getLogger(__name__)

SESSION_TIMEOUT_MS: Final = 6_000
"""The shortest that Kafka's `group.min.session.timeout.ms` allows; after it, a dead member's share moves."""
REBALANCE_TIMEOUT_MS: Final = 10_000
HEARTBEAT_SECONDS: Final = 1.5

_PROTOCOL: Final = "shares"
_LAYOUT: Final = struct.Struct(">hii")  # version, number, member count
_VERSION: Final = 0

assert HEARTBEAT_SECONDS * 3000 <= SESSION_TIMEOUT_MS


class Share(NamedTuple):
    """The share of one member: `number` of `members`, counted from 0."""

    number: int
    members: int

    def holds(self, work: str) -> bool:
        """Whether work of this name belongs to this share; the same in every process."""
        return zlib.crc32(work.encode()) % self.members == self.number

    def holds_partition(self, topic: str, partition: int) -> bool:
        """Whether a partition belongs to this share; spreads the partitions of a topic evenly."""
        return (zlib.crc32(topic.encode()) + partition) % self.members == self.number


class SharingMember(ClassicMember):
    """One process of the service; `join` before anything else and whenever `lost` is set, `leave` at the end."""

    def __init__(self, client: Client, group_id: str, protocol_type: str, work: bytes = b"") -> None:
        """`work` identifies the work that is divided; all members should have the same."""
        self._work = work
        terms = Terms(protocol_type, _PROTOCOL, SESSION_TIMEOUT_MS, REBALANCE_TIMEOUT_MS, HEARTBEAT_SECONDS)
        super().__init__(client, group_id, terms)

    async def join(self) -> Share:
        """Join the next generation; returns this process's share. Raises ClientError."""
        return decode_share(await self.enter())

    def subscription(self) -> bytes:
        """Identifies the work: every member takes part alike."""
        return self._work

    async def assign_members(self, subscriptions: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Number the members in the order of their ids."""
        if len(set(subscriptions.values())) > 1:
            logger.warning(
                "the members of group %s have different settings, so some of their work is not done; "
                "start them all with the same settings",
                self.group_id,
            )
        return {
            member: encode_share(Share(number, len(subscriptions)))
            for number, member in enumerate(sorted(subscriptions))
        }


def encode_share(share: Share) -> bytes:
    """Encode an assignment."""
    return _LAYOUT.pack(_VERSION, share.number, share.members)


def decode_share(data: bytes) -> Share:
    """Decode an assignment of any version; malformed bytes mean all work, since work done twice does less harm than work not done."""
    if len(data) < _LAYOUT.size:
        return Share(0, 1)
    _, number, members = _LAYOUT.unpack_from(data)
    return Share(number, members) if 0 <= number < members else Share(0, 1)
