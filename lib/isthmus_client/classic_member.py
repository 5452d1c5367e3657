"""Member of a classic group of any protocol type: join, assign as the elected leader, heartbeat, leave.

When `lost` is set, the group rebalances: `enter` again. Subscriptions and assignments are bytes whose meaning subclasses define.
"""

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import millis
from isthmus_wire.requests import LeaveGroupRequest
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.leave_group.v5.request import MemberIdentity
from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment

from isthmus_client.client import Client
from isthmus_client.errors import ClientError, Refused, check
from isthmus_client.limits import HEARTBEAT_SECONDS, REBALANCE_TIMEOUT_MS, REQUEST_SECONDS, SESSION_TIMEOUT_MS

_lanes: Final = itertools.count()
_JOIN_AGAIN: Final = frozenset({ErrorCode.rebalance_in_progress, ErrorCode.illegal_generation})
NO_GENERATION: Final = -1


class Terms(NamedTuple):
    """The protocol and the timeouts of a group's members."""

    protocol_type: str
    protocol: str
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS
    heartbeat_seconds: float = HEARTBEAT_SECONDS


class ClassicMember(ABC):
    """One member; `enter` before anything else and whenever `lost` is set, `leave` at the end."""

    def __init__(self, client: Client, group_id: str, terms: Terms) -> None:
        self.group_id = group_id
        self.member_id = ""
        self.generation = NO_GENERATION
        self.lost = asyncio.Event()
        self._client = client
        self._terms = terms
        self._wait_seconds = terms.rebalance_timeout_ms / 1000 + REQUEST_SECONDS
        self._lane = f"group {next(_lanes)}"  # JoinGroup waits for the other members, which may share this client
        self._heartbeats: asyncio.Task[None] | None = None

    @abstractmethod
    def subscription(self) -> bytes:
        """The metadata that this member joins with."""

    @abstractmethod
    async def assign_members(self, subscriptions: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Compute the members' assignments from their subscriptions; called on the member that the coordinator elects leader."""

    async def enter(self) -> bytes:
        """Join the next generation; returns this member's assignment."""
        await self._stop_heartbeats()
        while True:
            try:
                joined = await self._join()
                assigned = await self._sync(joined)
            except Refused as refused:
                if not self._may_join_again(refused):
                    raise
                continue
            break
        self.lost.clear()
        self._heartbeats = asyncio.get_running_loop().create_task(self._beat())
        return assigned

    def _may_join_again(self, refused: Refused) -> bool:
        if refused.code is ErrorCode.unknown_member_id:
            self.member_id, self.generation = "", NO_GENERATION
            return True
        return refused.code in _JOIN_AGAIN

    async def _join(self) -> Any:
        try:
            return await self._send_join()
        except Refused as refused:
            if refused.code is not ErrorCode.member_id_required:
                raise
        return await self._send_join()  # the error response carried the id (KIP-394)

    async def _send_join(self) -> Any:
        request = entity(
            JoinGroupRequest,
            group_id=self.group_id,
            session_timeout=millis(self._terms.session_timeout_ms),
            rebalance_timeout=millis(self._terms.rebalance_timeout_ms),
            member_id=self.member_id,
            protocol_type=self._terms.protocol_type,
            protocols=(entity(JoinGroupRequestProtocol, name=self._terms.protocol, metadata=self.subscription()),),
        )

        def verify(response: Any) -> None:
            if response.error_code is ErrorCode.member_id_required:
                self.member_id = response.member_id
            check(response.error_code, f"joining group {self.group_id}")

        joined = await self._client.send_to_coordinator(
            self.group_id, ApiKey.JOIN_GROUP, request, verify, lane=self._lane, seconds=self._wait_seconds
        )
        self.member_id, self.generation = joined.member_id, joined.generation_id
        return joined

    async def _sync(self, joined: Any) -> bytes:
        leads = joined.leader == self.member_id and not joined.skip_assignment
        request = entity(
            SyncGroupRequest,
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type=self._terms.protocol_type,
            protocol_name=self._terms.protocol,
            assignments=await self._assignments(joined) if leads else (),
        )

        def verify(response: Any) -> None:
            check(response.error_code, f"assignment of group {self.group_id}")

        synced = await self._client.send_to_coordinator(
            self.group_id, ApiKey.SYNC_GROUP, request, verify, lane=self._lane, seconds=self._wait_seconds
        )
        assigned: bytes = synced.assignment
        return assigned

    async def _assignments(self, joined: Any) -> tuple[SyncGroupRequestAssignment, ...]:
        assigned = await self.assign_members({member.member_id: member.metadata for member in joined.members})
        return tuple(
            entity(SyncGroupRequestAssignment, member_id=member, assignment=share) for member, share in assigned.items()
        )

    async def _beat(self) -> None:
        """Send heartbeats until the group rebalances or the coordinator has removed this member."""
        request = entity(
            HeartbeatRequest, group_id=self.group_id, generation_id=self.generation, member_id=self.member_id
        )

        def verify(response: Any) -> None:
            check(response.error_code, f"heartbeat to group {self.group_id}")

        while not self.lost.is_set():
            try:
                await self._client.send_to_coordinator(
                    self.group_id, ApiKey.HEARTBEAT, request, verify, lane=self._lane
                )
                await asyncio.sleep(self._terms.heartbeat_seconds)
            except ClientError as error:
                if isinstance(error, Refused) and error.code is ErrorCode.unknown_member_id:
                    self.member_id = ""
                self.lost.set()

    async def _stop_heartbeats(self) -> None:
        if self._heartbeats is not None:
            self._heartbeats.cancel()
            await asyncio.wait([self._heartbeats])
            self._heartbeats = None

    async def leave(self) -> None:
        """Leave the group at once; raises ClientError, and then the session timeout removes the member."""
        await self._stop_heartbeats()
        try:
            if self.member_id:
                await self._leave()
        finally:
            self._client.close_lane(self._lane)

    async def _leave(self) -> None:
        request = LeaveGroupRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            members=(entity(MemberIdentity, member_id=self.member_id, reason="the member is closing"),),
        )

        def verify(response: Any) -> None:
            check(response.error_code, f"leaving group {self.group_id}")

        self.member_id = ""
        await self._client.send_to_coordinator(self.group_id, ApiKey.LEAVE_GROUP, request, verify, lane=self._lane)
