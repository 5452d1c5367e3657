"""Sharing work among the processes of a service: a classic group whose members each get a number and how many there are.

Which work belongs to which number is computed by every member from what it knows (`Share.holds`), so nothing is divided anew when work
comes or goes, only when members do. For a moment two members may hold the same work, or nobody: whoever uses this must be safe when work
is done twice.
"""

import struct
import zlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from isthmus_client.classic_member import ClassicMember, Terms
from isthmus_client.client import Client

SESSION_TIMEOUT_MS: Final = 6_000
"""The shortest that Kafka's `group.min.session.timeout.ms` allows: so soon a dead member's share moves."""
REBALANCE_TIMEOUT_MS: Final = 10_000
HEARTBEAT_SECONDS: Final = 1.5

_PROTOCOL: Final = "shares"
_LAYOUT: Final = struct.Struct(">hii")  # version, number, how many
_VERSION: Final = 0

assert HEARTBEAT_SECONDS * 3000 <= SESSION_TIMEOUT_MS


class Share(NamedTuple):
    """The part of one member: `number` of `members`, counted from 0."""

    number: int
    members: int

    def holds(self, work: str) -> bool:
        """Whether work of this name belongs to it; the same in every process."""
        return zlib.crc32(work.encode()) % self.members == self.number

    def holds_partition(self, topic: str, partition: int) -> bool:
        """The same for partitions, so that those of one topic are spread evenly."""
        return (zlib.crc32(topic.encode()) + partition) % self.members == self.number


class SharingMember(ClassicMember):
    """One process of the service; `join` before anything else and whenever `lost` is set, `leave` at the end."""

    def __init__(self, client: Client, group_id: str, protocol_type: str) -> None:
        terms = Terms(protocol_type, _PROTOCOL, SESSION_TIMEOUT_MS, REBALANCE_TIMEOUT_MS, HEARTBEAT_SECONDS)
        super().__init__(client, group_id, terms)

    async def join(self) -> Share:
        """Become part of the next generation; returns this process's part. Raises ClientError."""
        return decode_share(await self.enter())

    def subscription(self) -> bytes:
        """Everybody wants the same."""
        return b""

    async def divide(self, wanted: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Numbers in the order of ids."""
        return {member: encode_share(Share(number, len(wanted))) for number, member in enumerate(sorted(wanted))}


def encode_share(share: Share) -> bytes:
    """The bytes of an assignment."""
    return _LAYOUT.pack(_VERSION, share.number, share.members)


def decode_share(data: bytes) -> Share:
    """From the bytes of any version; everything for bytes that are none, since work done twice does less harm than work not done."""
    if len(data) < _LAYOUT.size:
        return Share(0, 1)
    _, number, members = _LAYOUT.unpack_from(data)
    return Share(number, members) if 0 <= number < members else Share(0, 1)
