"""A transactional id in a shard: decisions that wait for their commit, markers, timeouts, expiry, and failover in every phase."""

from dataclasses import replace

import pytest
from isthmus_broker.core.transaction.config import TransactionConfig
from isthmus_broker.core.transaction.records import Transaction, TransactionKey, decode_record
from isthmus_broker.core.transaction.requests import ListTransactions, Outcome
from isthmus_broker.core.transaction.states import State
from isthmus_broker.core.transaction.transitions import EPOCH_LAST
from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import ProducerId

from tests.unit.transaction.harness import NAME, TIMEOUT_MS, A, B, World

E = ErrorCode


def ongoing(world: World) -> ProducerId:
    producer = world.started()
    assert world.add(producer, A, B) is E.none
    return producer


def test_a_transaction_from_its_first_partition_to_its_completion() -> None:
    world = World()
    producer = ongoing(world)
    outcome = world.end(producer, commits=True)
    assert outcome == Outcome(producer=ProducerId(producer.id, 1))
    (order,) = world.sent
    assert order.partitions == {A, B}
    assert (order.marker.producer, order.marker.committed, order.marker.coordinator_epoch) == (
        (producer.id, 1),
        True,
        1,
    )
    assert order.marker.transaction_version == 2
    assert world.add(outcome.producer, A) is E.concurrent_transactions
    world.written(order, [A])
    assert world.describe().partitions == (B,)
    assert world.describe().state == "PrepareCommit"
    world.written(order, [B])
    assert world.state == "COMPLETE_COMMIT"
    assert world.add(outcome.producer, A) is E.none


def test_markers_wait_until_the_decision_is_committed() -> None:
    world = World()
    producer = ongoing(world)
    world.commits = False
    assert world.end(producer, commits=True) is None
    assert world.state == "PREPARE_COMMIT"
    assert not world.sent
    world.commit()
    assert len(world.sent) == 1


def test_a_new_leader_does_not_write_markers_of_a_decision_that_may_be_lost() -> None:
    world = World()
    producer = ongoing(world)
    world.commits = False
    world.end(producer, commits=True)
    world.load(high_watermark=len(world.log) - 1)
    assert not world.sent
    world.commit()
    (order,) = world.sent
    assert order.marker.coordinator_epoch == 2


@pytest.mark.parametrize("commits", [True, False])
def test_a_new_leader_continues_a_decided_transaction(commits: bool) -> None:
    world = World()
    producer = ongoing(world)
    world.end(producer, commits=commits)
    world.sent.clear()
    world.load()
    (order,) = world.sent
    assert (order.partitions, order.marker.committed, order.marker.coordinator_epoch) == (frozenset({A, B}), commits, 2)
    world.finish()
    assert world.state == ("COMPLETE_COMMIT" if commits else "COMPLETE_ABORT")
    world.load()
    assert not world.sent


def test_reports_of_earlier_markers_do_not_count() -> None:
    world = World()
    producer = ongoing(world)
    after = world.end(producer, commits=True).producer
    (first,) = world.sent
    world.finish()
    world.add(after, A)
    world.end(after, commits=True)
    world.written(first)
    assert world.state == "PREPARE_COMMIT"


def test_a_refused_decision_changes_nothing() -> None:
    world = World()
    producer = ongoing(world)
    world.refuses = E.not_enough_replicas
    assert world.end(producer, commits=True) == Outcome(E.coordinator_not_available)
    assert world.state == "ONGOING"
    world.refuses = None
    assert world.end(producer, commits=True).error is E.none


def test_a_refused_completion_is_repeated() -> None:
    world = World()
    producer = ongoing(world)
    world.end(producer, commits=True)
    world.refuses = E.not_enough_replicas
    world.finish()
    assert world.state == "PREPARE_COMMIT"
    world.refuses = None
    world.pass_time(100)
    assert world.state == "COMPLETE_COMMIT"


def test_an_empty_transaction_is_aborted_without_markers() -> None:
    world = World()
    producer = world.started()
    assert world.end(producer, commits=False) == Outcome(producer=ProducerId(producer.id, 1))
    assert not world.sent
    assert world.state == "COMPLETE_ABORT"


def test_init_aborts_an_ongoing_transaction_and_fences_its_producer() -> None:
    world = World()
    producer = ongoing(world)
    assert world.init() == Outcome(E.concurrent_transactions)
    assert world.init() == Outcome(E.concurrent_transactions)
    world.finish()
    assert world.init() == Outcome(producer=ProducerId(producer.id, 2))
    assert world.end(producer, commits=True).error is E.producer_fenced
    assert world.add(producer, A) is E.producer_fenced


def test_verification() -> None:
    world = World()
    assert world.add(ProducerId(1, 0), A, verify_only=True) is E.invalid_producer_id_mapping
    producer = world.started()
    assert world.add(producer, A, verify_only=True) is E.transaction_abortable
    assert world.state == "EMPTY"
    world.add(producer, A)
    assert world.add(producer, A, B, verify_only=True) == {A: E.none, B: E.transaction_abortable}
    assert world.add(ProducerId(producer.id, 7), A, verify_only=True) is E.producer_fenced
    assert world.add(ProducerId(99, 0), A, verify_only=True) is E.invalid_producer_id_mapping
    world.end(producer, commits=True)
    assert world.add(ProducerId(producer.id, 1), A, verify_only=True) is E.concurrent_transactions


def test_a_transaction_that_times_out_is_aborted() -> None:
    world = World()
    producer = ongoing(world)
    world.pass_time(TIMEOUT_MS - 1)
    assert world.state == "ONGOING"
    world.pass_time(10_000)
    (order,) = world.sent
    assert not order.marker.committed
    assert order.marker.producer == ProducerId(producer.id, 1)
    world.finish()
    assert world.end(producer, commits=True) == Outcome(E.invalid_txn_state)
    assert world.end(producer, commits=False) == Outcome(producer=ProducerId(producer.id, 1))


def test_the_timeout_of_a_loaded_transaction_runs_from_its_start() -> None:
    world = World()
    ongoing(world)
    world.now_ms += TIMEOUT_MS - 5_000
    world.load()
    world.pass_time(4_000)
    assert not world.sent
    world.pass_time(10_000)
    assert len(world.sent) == 1


def test_a_timeout_in_the_last_epoch_takes_another_producer_id() -> None:
    world = World()
    producer = ongoing(world)
    world.shard.transactions[NAME] = last = _with_epoch(world.transaction, EPOCH_LAST)
    world.pass_time(TIMEOUT_MS + 10_001)
    (order,) = world.sent
    assert order.marker.producer == ProducerId(producer.id, 32_767)
    world.finish()
    assert world.transaction.producer == ProducerId(world.next_id, 0)
    assert last.producer_id != world.next_id


def _with_epoch(transaction: Transaction, epoch: int) -> Transaction:
    return replace(transaction, epoch=epoch)


def test_idle_ids_expire_and_ongoing_ones_do_not() -> None:
    config = TransactionConfig(transactional_id_expiration_ms=1_000_000)
    world = World(config=config)
    world.started()
    world.pass_time(3_600_000)
    assert NAME not in world.shard.transactions
    key, value = world.log[-1]
    assert decode_record(key, value) is not None
    assert value is None
    world.load()
    assert NAME not in world.shard.transactions
    world.init(timeout_ms=900_000)
    producer = world.transaction.producer
    world.add(producer, A)
    world.now_ms += 3_600_000
    world.shard._deadlines.clear()
    world.pass_time(0)
    assert world.state == "ONGOING"


@pytest.mark.parametrize(("version", "record_version"), [(0, 0), (1, 1), (2, 1)])
def test_records_have_the_version_of_the_cluster(version: int, record_version: int) -> None:
    world = World(version=version)
    producer = world.started()
    world.add(producer, B, A, version=0)
    for key, value in world.log:
        assert value is not None
        assert int.from_bytes(value[:2]) == record_version
        record = decode_record(key, value)
        assert record is not None
        assert record.key == TransactionKey(NAME)
        assert record.encode() == (key, value)
    before = world.describe()
    world.load()
    assert world.describe() == before


def test_listing() -> None:
    world = World()
    producer = ongoing(world)

    def listed(**filters: object) -> list[str]:
        listing = world.send(ListTransactions(**filters))  # type: ignore[arg-type]
        assert listing.error is E.none
        return [one.transactional_id for one in listing.transactions]

    world.now_ms += 5_000
    assert listed() == [NAME]
    assert listed(states=frozenset({State.ONGOING})) == [NAME]
    assert listed(states=frozenset({State.EMPTY})) == []
    assert listed(only_unknown_states=True) == []
    assert listed(producer_ids=frozenset({producer.id})) == [NAME]
    assert listed(producer_ids=frozenset({producer.id + 1})) == []
    assert listed(duration_ms=4_999) == [NAME]
    assert listed(duration_ms=5_000) == []
    assert listed(pattern="pay.*") == [NAME]
    assert listed(pattern="pay") == []
    assert world.send(ListTransactions(pattern="(")).error is E.invalid_regular_expression


def test_unknown_ids() -> None:
    world = World()
    assert world.describe().error is E.transactional_id_not_found
    assert world.end(ProducerId(1, 0), commits=True) == Outcome(E.invalid_producer_id_mapping)
    assert world.add(ProducerId(1, 0), A) is E.invalid_producer_id_mapping
