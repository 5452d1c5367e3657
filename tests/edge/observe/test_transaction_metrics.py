"""The metrics of transactions."""

from isthmus_broker.edge.coordinators.transactions import TransactionCounts
from isthmus_broker.edge.observe.metrics import transaction_metrics


def test_states_waiting_markers_and_refused_transitions_are_counted() -> None:
    metrics = transaction_metrics(TransactionCounts({"Ongoing": 2, "Empty": 1}, 3, 4))
    samples = [(sample.name, sample.labels, sample.value) for metric in metrics for sample in metric.samples]
    assert samples == [
        ("isthmus_transactional_ids", {"state": "Empty"}, 1),
        ("isthmus_transactional_ids", {"state": "Ongoing"}, 2),
        ("kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize", {}, 4),
        ("isthmus_illegal_transaction_transitions_total", {}, 3),
    ]
