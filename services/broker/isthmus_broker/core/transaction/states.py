"""The states of a transactional id, and the table of legal transitions.

| state           | may be followed by                                                    |
|-----------------|-----------------------------------------------------------------------|
| EMPTY           | EMPTY, ONGOING, PREPARE_ABORT (an empty transaction is aborted), DEAD |
| ONGOING         | ONGOING, PREPARE_COMMIT, PREPARE_ABORT                                |
| PREPARE_COMMIT  | COMPLETE_COMMIT                                                       |
| PREPARE_ABORT   | COMPLETE_ABORT                                                        |
| COMPLETE_COMMIT | EMPTY, ONGOING, PREPARE_ABORT, DEAD                                   |
| COMPLETE_ABORT  | EMPTY, ONGOING, PREPARE_ABORT, DEAD                                   |

DEAD is not recorded: a tombstone removes the id. PREPARE_EPOCH_FENCE is a name that only Kafka's requests use: here a fenced
transaction is decided at once.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class State(IntEnum):
    """States by the number in their records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def kafka_name(self) -> str:
        """The name in Kafka's requests and responses, such as `PrepareCommit`."""
        return self.name.title().replace("_", "")

    @property
    def is_prepared(self) -> bool:
        """Whether the transaction is decided, and its markers are outstanding."""
        return self in (State.PREPARE_COMMIT, State.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """Whether there is no transaction."""
        return self in (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


_IDLE_TO: Final = frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT, State.DEAD})
TRANSITIONS: Final[Mapping[State, frozenset[State]]] = {
    State.EMPTY: _IDLE_TO,
    State.ONGOING: frozenset({State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT}),
    State.PREPARE_COMMIT: frozenset({State.COMPLETE_COMMIT}),
    State.PREPARE_ABORT: frozenset({State.COMPLETE_ABORT}),
    State.COMPLETE_COMMIT: _IDLE_TO,
    State.COMPLETE_ABORT: _IDLE_TO,
    State.DEAD: frozenset(),
    State.PREPARE_EPOCH_FENCE: frozenset(),
}
"""The states that may follow each state."""
BY_NAME: Final = {state.kafka_name: state for state in State}


def is_legal(before: State | None, after: State) -> bool:
    """Whether `after` may follow; a new id begins as EMPTY."""
    return after is State.EMPTY if before is None else after in TRANSITIONS[before]
