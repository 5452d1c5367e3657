"""The control batches of the metadata log and its snapshots, in Kafka's format, and the properties of a batch that raft needs."""

import struct
from collections.abc import Iterator
from typing import Final

from isthmus_model.clocks import WallClock
from isthmus_wire.errors import CorruptBatch, DecodeError
from isthmus_wire.messages import decode_entity, encode_entity
from isthmus_wire.records import (
    CONTROL_BIT,
    LENGTH_END,
    NO_TIMESTAMP,
    NewRecord,
    batches,
    build_batch,
    build_control_batch,
    control_key,
    iterate_records,
)
from kio.schema.k_raft_version_record.v0.data import KRaftVersionRecord
from kio.schema.leader_change_message.v0.data import LeaderChangeMessage
from kio.schema.leader_change_message.v0.data import Voter as ElectedVoter
from kio.schema.snapshot_footer_record.v0.data import SnapshotFooterRecord
from kio.schema.snapshot_header_record.v0.data import SnapshotHeaderRecord
from kio.schema.types import BrokerId
from kio.schema.voters_record.v0 import data as voters_v0
from kio.static.primitive import i16, i32, i64, u16

from isthmus_broker.core.raft.types import Entry, ReplicaKey, Voter, VoterEndpoint, VoterSet

LEADER_CHANGE: Final = 2
SNAPSHOT_HEADER: Final = 3
SNAPSHOT_FOOTER: Final = 4
KRAFT_VERSION: Final = 5
VOTERS: Final = 6

_VERSION: Final = i16(0)
_DYNAMIC_VOTERS: Final = 1


class RaftRecords:
    """Makes the batches that the core requests; offsets and epochs are set when they are written."""

    def __init__(self, wall_clock: WallClock) -> None:
        self._wall_clock = wall_clock

    def leader_change(
        self, leader_id: int, voters: tuple[int, ...], granting: tuple[int, ...], first: VoterSet | None
    ) -> bytes:
        """The first batch of an epoch; the very first of a dynamic quorum also contains the voters it was formatted with."""
        message = LeaderChangeMessage(
            version=_VERSION,
            leader_id=BrokerId(leader_id),
            voters=tuple(ElectedVoter(voter_id=i32(each)) for each in voters),
            granting_voters=tuple(ElectedVoter(voter_id=i32(each)) for each in granting),
        )
        now = self._wall_clock()
        records = [NewRecord(control_key(LEADER_CHANGE), encode_entity(message), now)]
        if first is not None:
            records += _voters_records(first, now)
        return build_batch(records, attributes=CONTROL_BIT)

    def voters(self, voters: VoterSet) -> bytes:
        """A change of voters."""
        return build_control_batch(VOTERS, encode_entity(_voters_record(voters)), timestamp=self._wall_clock())

    def upgrade(self, voters: VoterSet) -> bytes:
        """The change from static voters to voters in the log."""
        return build_batch(_voters_records(voters, self._wall_clock()), attributes=CONTROL_BIT)

    def snapshot_header(self, last_timestamp: int, voters: VoterSet | None) -> bytes:
        """The header of a snapshot: its last timestamp and, with dynamic voters, the voter set."""
        now = self._wall_clock()
        header = SnapshotHeaderRecord(version=_VERSION, last_contained_log_timestamp=i64(last_timestamp))
        records = [NewRecord(control_key(SNAPSHOT_HEADER), encode_entity(header), now)]
        if voters is not None:
            records += _voters_records(voters, now)
        return build_batch(records, attributes=CONTROL_BIT)

    def snapshot_footer(self) -> bytes:
        """The footer of a complete snapshot."""
        footer = SnapshotFooterRecord(version=_VERSION)
        return build_control_batch(SNAPSHOT_FOOTER, encode_entity(footer), timestamp=self._wall_clock())


def _voters_records(voters: VoterSet, timestamp: int) -> list[NewRecord]:
    version = KRaftVersionRecord(version=_VERSION, k_raft_version=i16(_DYNAMIC_VOTERS))
    return [
        NewRecord(control_key(KRAFT_VERSION), encode_entity(version), timestamp),
        NewRecord(control_key(VOTERS), encode_entity(_voters_record(voters)), timestamp),
    ]


def _voters_record(voters: VoterSet) -> voters_v0.VotersRecord:
    return voters_v0.VotersRecord(version=_VERSION, voters=tuple(_to_record(voter) for voter in voters.voters))


def _to_record(voter: Voter) -> voters_v0.Voter:
    return voters_v0.Voter(
        voter_id=BrokerId(voter.key.node_id),
        voter_directory_id=voter.key.directory_id,
        endpoints=tuple(
            voters_v0.Endpoint(name=each.name, host=each.host, port=u16(each.port)) for each in voter.endpoints
        ),
        k_raft_version_feature=voters_v0.KRaftVersionFeature(
            min_supported_version=i16(voter.min_kraft_version), max_supported_version=i16(voter.max_kraft_version)
        ),
    )


def _from_record(voter: voters_v0.Voter) -> Voter:
    return Voter(
        ReplicaKey(voter.voter_id, voter.voter_directory_id),
        tuple(VoterEndpoint(each.name, each.host, each.port) for each in voter.endpoints),
        voter.k_raft_version_feature.min_supported_version,
        voter.k_raft_version_feature.max_supported_version,
    )


def entries(data: bytes) -> Iterator[Entry]:
    """The complete batches in `data` as raft's entries. Only control batches are decoded."""
    for position, header in batches(data):
        payload = data[position : position + header.size]
        voters = voters_in(payload) if header.is_control else None
        yield Entry(header.base_offset, header.last_offset, header.leader_epoch, payload, voters)


def voters_in(batch: bytes) -> VoterSet | None:
    """The last voter set in a control batch."""
    voters = None
    for record in iterate_records(batch):
        if record.key == control_key(VOTERS):
            try:
                message = decode_entity(voters_v0.VotersRecord, record.value or b"")
                voters = VoterSet(tuple(sorted(map(_from_record, message.voters), key=lambda each: each.key.node_id)))
            except (DecodeError, AssertionError) as error:
                raise CorruptBatch(f"the voters at offset {record.offset}: {error}") from error
    return voters


def snapshot_timestamp(batch: bytes) -> int:
    """The last timestamp of the snapshot that this batch opens."""
    for record in iterate_records(batch):
        if record.key == control_key(SNAPSHOT_HEADER):
            return decode_entity(SnapshotHeaderRecord, record.value or b"").last_contained_log_timestamp
    return NO_TIMESTAMP


def is_snapshot_footer(batch: bytes) -> bool:
    """Whether a control batch is a snapshot's footer."""
    return any(record.key == control_key(SNAPSHOT_FOOTER) for record in iterate_records(batch))


def placed(entry: Entry) -> bytes:
    """The entry's batch with its offset and epoch in the log, which the checksum does not cover."""
    place = struct.pack(">q", entry.base_offset)
    epoch = struct.pack(">i", entry.epoch)
    payload = entry.payload
    if payload[:8] == place and payload[LENGTH_END : LENGTH_END + 4] == epoch:
        return payload
    return place + payload[8:LENGTH_END] + epoch + payload[LENGTH_END + 4 :]
