"""The states of a transactional producer, the calls that each allows, and what an error means. Pure."""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from isthmus_wire.errors import ErrorCode

from isthmus_client.errors import (
    ClientError,
    IllegalCall,
    MustAbort,
    NotSupported,
    ProducerFenced,
    ProducerUnusable,
    Refused,
    TransactionError,
)


class State(Enum):
    """What a transactional producer is doing; the value completes "the producer ..."."""

    NEW = "is not initialized: call init_transactions first"
    INITIALIZING = "is not initialized yet: call init_transactions again"
    READY = "has no open transaction: call begin first"
    OPEN = "has an open transaction: commit or abort it first"
    COMMITTING = "is committing: commit or abort it first"
    IN_DOUBT = "has sent the commit: call commit again until its outcome is known"
    ABORTING = "is aborting: call abort again if it failed"
    MUST_ABORT = "has a transaction that failed: abort it first"
    UNUSABLE = "is unusable: close it"


class Call(Enum):
    """The calls of a transactional producer."""

    INIT = "init_transactions"
    BEGIN = "begin"
    SEND = "send"
    SEND_OFFSETS = "send_offsets"
    COMMIT = "commit"
    ABORT = "abort"


# What the producer is doing after a call was accepted; a call that is not here is illegal in the state.
ALLOWED: Final[Mapping[tuple[State, Call], State]] = {
    (State.NEW, Call.INIT): State.INITIALIZING,
    (State.INITIALIZING, Call.INIT): State.INITIALIZING,
    (State.READY, Call.BEGIN): State.OPEN,
    (State.OPEN, Call.SEND): State.OPEN,
    (State.OPEN, Call.SEND_OFFSETS): State.OPEN,
    (State.OPEN, Call.COMMIT): State.COMMITTING,
    (State.OPEN, Call.ABORT): State.ABORTING,
    (State.COMMITTING, Call.COMMIT): State.COMMITTING,
    (State.COMMITTING, Call.ABORT): State.ABORTING,
    (State.IN_DOUBT, Call.COMMIT): State.IN_DOUBT,
    (State.ABORTING, Call.ABORT): State.ABORTING,
    (State.MUST_ABORT, Call.ABORT): State.ABORTING,
}
# After init_transactions, commit or abort has succeeded.
COMPLETED: Final[Mapping[State, State]] = {
    State.INITIALIZING: State.READY,
    State.COMMITTING: State.READY,
    State.IN_DOUBT: State.READY,
    State.ABORTING: State.READY,
}
# After an error that is not fatal. In a state that is not here, the call can be repeated.
FAILED: Final[Mapping[State, State]] = {
    State.OPEN: State.MUST_ABORT,
    State.COMMITTING: State.MUST_ABORT,
    State.IN_DOUBT: State.MUST_ABORT,
    State.MUST_ABORT: State.MUST_ABORT,
    State.ABORTING: State.UNUSABLE,
    State.UNUSABLE: State.UNUSABLE,
}
_FENCED: Final = frozenset({ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch})
_FATAL: Final = frozenset(
    {
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.transactional_id_authorization_failed,
        ErrorCode.unsupported_version,
    }
)


_SEND_AGAIN: Final = "Abort the transaction, then repeat its work in a new one."
_CLOSE: Final = "Close this producer; the coordinator aborts its open transaction."
_CLOSE_IN_DOUBT: Final = (
    "Close this producer, and check whether its transaction was committed: no response to the commit shows it."
)


class TransactionState:
    """The state of one transactional producer, and the error that ended its transaction or the producer."""

    def __init__(self, transactional_id: str) -> None:
        self.state = State.NEW
        self._name = f"transactional id {transactional_id}"
        self._error: TransactionError | None = None

    def allows(self, call: Call) -> bool:
        """Whether the call is legal now."""
        return (self.state, call) in ALLOWED

    def check(self, call: Call) -> None:
        """Raise the error of the transaction or the producer, or IllegalCall, unless the call is legal now."""
        if self.allows(call):
            return
        if self._error is not None:
            raise _copy(self._error)
        raise IllegalCall(f"{self._name}: cannot call {call.value}: the producer {self.state.value}")

    def enter(self, call: Call) -> None:
        """Begin a call; raises as `check`."""
        self.check(call)
        self.state = ALLOWED[self.state, call]

    def check_append(self) -> None:
        """Raise unless buffered records may be appended: the transaction is open, or commit waits for them."""
        if self.state is not State.COMMITTING:
            self.check(Call.SEND)

    def send_commit(self) -> None:
        """Record that the request to commit leaves now: from here on, the transaction may be committed."""
        self.state = State.IN_DOUBT

    def complete(self) -> None:
        """Record that init_transactions, commit or abort has succeeded."""
        self.state = COMPLETED[self.state]
        self._error = None

    def fail(self, error: ClientError, *, is_append: bool = False) -> ClientError:
        """Record an error; returns the one to raise, with its cause.

        An old epoch in the response to an append may be that of a transaction that timed out, which an abort repairs. If another producer
        has the id, the abort fails.
        """
        if isinstance(error, TransactionError):
            return error
        fatal = self._fatal(error, is_append=is_append)
        before = self.state
        if fatal is None and before not in FAILED:
            return error
        self.state = State.UNUSABLE if fatal is not None else FAILED[before]
        if self._error is None or self.state is not before:
            self._error = fatal or self._failure(error)
            self._error.__cause__ = error
        return _copy(self._error)

    def _fatal(self, error: ClientError, *, is_append: bool) -> ProducerUnusable | None:
        code = error.code if isinstance(error, Refused) else None
        advice = _CLOSE_IN_DOUBT if self.state is State.IN_DOUBT else _CLOSE
        if code in _FENCED and not (is_append and code is ErrorCode.invalid_producer_epoch):
            return ProducerFenced(
                f"{self._name}: another producer has it now, or the coordinator aborted a transaction that timed out. {advice}"
            )
        if code in _FATAL or isinstance(error, NotSupported):
            return ProducerUnusable(f"{self._name}: {error}. {advice}")
        return None

    def _failure(self, error: ClientError) -> TransactionError:
        if self.state is State.UNUSABLE:
            return ProducerUnusable(f"{self._name}: the abort was refused: {error}. {_CLOSE}")
        return MustAbort(f"{self._name}: {error}. {_SEND_AGAIN}")


def _copy(error: TransactionError) -> TransactionError:
    """The error without the traceback of where it was raised before."""
    copy = type(error)(*error.args)
    copy.__cause__ = error.__cause__
    return copy
