"""A streams group with a member that has all tasks, for tools that describe it."""

from typing import Any, Final
from uuid import UUID

from isthmus_wire.apis import ApiKey

from tests.conformance.oracle.exchanges.offsets import commit
from tests.conformance.oracle.exchanges.streams_groups import (
    beat,
    configure,
    internal_topic,
    join,
    part,
    tasks_in,
    topology_of,
)
from tests.conformance.oracle.talk import Talk

PARTITIONS: Final = 2


class Application:
    """Words of the input are repartitioned and counted; its topics are named after the group."""

    def __init__(self, talk: Talk, group: str) -> None:
        """Create the topics, join as member `m` of process `p`, take all tasks, and commit offsets of the input."""
        self.group = group
        self.input = f"{group}-input"
        self.repartition = f"{group}-words-repartition"
        self.changelog = f"{group}-counts-changelog"
        self._talk = talk
        input_id, *_ = [talk.topic(name, PARTITIONS) for name in (self.input, self.repartition, self.changelog)]
        talk.group(group)
        configure(talk, group, initial_rebalance_delay_ms="0", session_timeout_ms="60000")
        topology = topology_of(
            part("0", self.input, repartition_sink_topics=(self.repartition,)),
            part(
                "1",
                repartition_source_topics=[internal_topic(self.repartition)],
                state_changelog_topics=[internal_topic(self.changelog)],
            ),
        )
        self._topology = topology
        joined = join(talk, group, "m", topology)
        self.epoch: int = joined["member_epoch"]
        self._tasks = tasks_in(joined)
        beat(talk, group, "m", self.epoch, **self._tasks)
        offsets: Any = [(index, 0, -1, "") for index in range(PARTITIONS)]
        commit(talk, group, (self.input, input_id, offsets), epoch=self.epoch, member="m")

    def leave(self) -> None:
        """Leave the group."""
        beat(self._talk, self.group, "m", -1)

    def share_with(self, other: str, process: str) -> None:
        """Let a member of another process join, with a standby task for each task with state, until the group is stable."""
        configure(self._talk, self.group, num_standby_replicas="1")
        joined = join(self._talk, self.group, other, self._topology, process)
        epochs = {"m": self.epoch, other: joined["member_epoch"]}
        tasks = {"m": self._tasks, other: tasks_in(joined)}

        def is_stable() -> bool:
            for member in epochs:
                answer = beat(self._talk, self.group, member, epochs[member], **tasks[member])
                epochs[member] = answer["member_epoch"]
                if answer["active_tasks"] is not None:
                    tasks[member] = tasks_in(answer)
            described = self._talk.quiet(
                ApiKey.STREAMS_GROUP_DESCRIBE, group_ids=(self.group,), include_authorized_operations=False
            )
            return bool(
                described["groups"][0]["group_state"] == "Stable"
                and all(one["standby_tasks"] for one in tasks.values())
            )

        self._talk.settle(is_stable, bool)

    def remove(self) -> None:
        """Leave, and delete the group and its topics, so that the next one may have the same names."""
        self.leave()
        self._talk.settle(
            lambda: self._talk.quiet(ApiKey.DELETE_GROUPS, groups_names=(self.group,)),
            lambda answer: answer["results"][0]["error_code"] in ("none", "group_id_not_found"),
        )
        names = (self.input, self.repartition, self.changelog)
        topics = [{"name": name, "topic_id": UUID(int=0)} for name in names]
        self._talk.quiet(ApiKey.DELETE_TOPICS, topics=topics, timeout=10_000)
