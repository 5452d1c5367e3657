"""One shard of the group coordinator: members join, heartbeat and leave, time passes, and another broker takes over."""

from collections.abc import Iterator
from typing import Any

from isthmus_broker.core.group.config import GroupConfig
from isthmus_wire.errors import ErrorCode
from kio.schema.leave_group.v5.request import MemberIdentity

from tests.unit.group.harness import GROUP, A, B, C, assigned, beat_request, topics
from tests.unit.group.harness import World as Shard
from tests.unit.group.loose import DescribeGroupsRequest
from tests.unit.group.streams import clients as streams

# Topic a is written into the repartition topic c, and that is joined with topic b; the join has state, in the changelog d.
STREAMS_TOPOLOGY = streams.topology(
    streams.part("copy", "a", sinks=["c"]),
    streams.part(
        "join",
        "b",
        repartitions=[streams.internal("c")],
        changelogs=[streams.internal("d")],
        copartitioned=[streams.together((0,), (0,))],
    ),
)
NAMES = {A: "a", B: "b", C: "c"}


class World:
    def __init__(self) -> None:
        self._shard = Shard(
            config=GroupConfig(
                group_consumer_assignment_interval_ms=0,
                group_streams_assignment_interval_ms=0,
                group_streams_num_standby_replicas=1,
            )
        )
        self._names: dict[str, str] = {}
        self._waiting: dict[int, str] = {}

    # -- the classic protocol ----------------------------------------------------------------------------------------

    def join(self, name: str) -> Iterator[str]:
        """JoinGroup of a dynamic member; the first one only gets its id."""
        token = self._shard.join(self._names.get(name, ""))
        response = self._shard.replies.get(token)
        if response is not None and response.error_code is ErrorCode.member_id_required:
            self._names[name] = response.member_id
            yield f"{name}: member_id_required"
            self._shard.replies.pop(token)
            token = self._shard.join(response.member_id)
        self._waiting[token] = name
        yield from self._settled()

    def sync(self, name: str, **assignments: str) -> Iterator[str]:
        """SyncGroup; the leader brings the assignments."""
        generation = self._generation
        given = {self._names[member]: text.encode() for member, text in assignments.items()}
        self._waiting[self._shard.sync(self._names[name], generation, given)] = name
        yield from self._settled()

    def heartbeat(self, name: str) -> Iterator[str]:
        """Heartbeat of a classic member."""
        yield f"{name}: {self._shard.heartbeat(self._names[name], self._generation).name}"

    def leave(self, name: str) -> Iterator[str]:
        """LeaveGroup."""
        self._shard.leave(MemberIdentity(member_id=self._names.pop(name)))
        yield from self._settled()

    # -- the consumer protocol ---------------------------------------------------------------------------------------

    def beat(self, member: str, epoch: str, **owned: str) -> Iterator[str]:
        """ConsumerGroupHeartbeat, with the partitions that the member owns."""
        ids = {name: topic_id for topic_id, name in NAMES.items()}
        partitions = {ids[name]: tuple(map(int, text.split(","))) for name, text in owned.items()}
        fields: dict[str, Any] = {"owned": partitions} if partitions else {}
        response = self._shard.response_to(beat_request(member, int(epoch), **fields))
        error = "" if response.error_code is ErrorCode.none else f" {response.error_code.name}"
        given = assigned(response)
        shown = "unchanged" if given is None else _partitions(given)
        yield f"{member}: epoch {response.member_epoch}, assignment {shown}{error}"

    # -- the streams protocol ----------------------------------------------------------------------------------------

    def streams_beat(self, member: str, epoch: str, process: str = "", **owned: str) -> Iterator[str]:
        """StreamsGroupHeartbeat, with the active tasks that the member has; a joining member names its process."""
        fields: dict[str, Any] = {"topology": STREAMS_TOPOLOGY, "process_id": process} if epoch == "0" else {}
        if owned:
            fields["active"] = {name: tuple(map(int, text.split(","))) for name, text in owned.items() if text != "-"}
        response = streams.beat(self._shard, member, int(epoch), **fields)
        error = "" if response.error_code is ErrorCode.none else f" {response.error_code.name}"
        yield f"{member}: epoch {response.member_epoch}, tasks {_tasks(response)}{error}"
        for status in response.status:
            yield f"  {status.status_detail}"

    def streams_status(self) -> Iterator[str]:
        """The group as StreamsGroupDescribe shows it."""
        group = streams.described(self._shard)
        yield f"{group.group_state}, members {sorted(member.member_id for member in group.members)}"

    # -- around it ---------------------------------------------------------------------------------------------------

    def topics(self, **partitions: str) -> Iterator[str]:
        """The cluster's topics change."""
        self._shard.see(topics(version=2, **{name: int(count) for name, count in partitions.items()}))
        yield from self._settled()

    def elapse(self, milliseconds: str) -> Iterator[str]:
        """Let time pass, stopping at every timer."""
        self._shard.advance(int(milliseconds))
        yield from self._settled()

    def take_over(self) -> Iterator[str]:
        """Another broker leads the shard's partition and loads it from the log."""
        self._shard.runtime.unload(self._shard.now)
        self._shard.load()
        yield from self._settled()

    def status(self) -> Iterator[str]:
        """The group as DescribeGroups shows it."""
        request = DescribeGroupsRequest(groups=(GROUP,), include_authorized_operations=False)
        (group,) = self._shard.response_to(request, 6).groups
        names = {member_id: name for name, member_id in self._names.items()}
        members = sorted(names.get(member.member_id, member.member_id) for member in group.members)
        yield f"{group.group_state or 'no such group'}, members {members}"

    @property
    def _generation(self) -> int:
        return self._last_generation

    _last_generation = 0

    def _settled(self) -> Iterator[str]:
        for token in [token for token in self._waiting if token in self._shard.replies]:
            name, response = self._waiting.pop(token), self._shard.replies.pop(token)
            if response.error_code is not ErrorCode.none:
                yield f"{name}: {response.error_code.name}"
            elif hasattr(response, "generation_id"):
                self._last_generation = response.generation_id
                role = "leader" if response.leader == response.member_id else "follower"
                yield f"{name}: generation {response.generation_id}, {role}"
            else:
                yield f"{name}: assigned {bytes(response.assignment).decode()}"


def _tasks(response: Any) -> str:
    active, standby = streams.tasks_of(response.active_tasks), streams.tasks_of(response.standby_tasks)
    if active is None or standby is None:
        return "unchanged"
    listed = [f"{name}{list(indexes)}" for name, indexes in active.items()]
    listed += [f"standby {name}{list(indexes)}" for name, indexes in standby.items()]
    return " ".join(listed) or "none"


def _partitions(assignment: Any) -> str:
    return " ".join(f"{NAMES[topic_id]}{list(numbers)}" for topic_id, numbers in sorted(assignment.items())) or "empty"
