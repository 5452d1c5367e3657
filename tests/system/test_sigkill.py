"""SIGKILL under load, round after round: nothing acknowledged is lost, doubled or out of order."""

import os
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.node import Node
from tests.system.ledger import PARTITIONS, Ledger

ROUNDS = int(os.environ.get("ISTHMUS_KILL_ROUNDS", "8"))
RECORDS_A_ROUND = 400


def test_nothing_acknowledged_is_lost_or_doubled(tmp_path: Path) -> None:
    node = Node(tmp_path, {"log.segment.bytes": "1048576", "log.index.interval.bytes": "512"})
    node.start()
    try:
        admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 2})
        for created in admin.create_topics([NewTopic("ledger", PARTITIONS, 1)]).values():
            created.result(30)
        ledger = Ledger(node.bootstrap, "ledger")
        for _ in range(ROUNDS):
            ledger.wait_for(ledger.total() + RECORDS_A_ROUND)
            node.kill()
            node.start()
        ledger.finish()
        ledger.check()
        node.stop()
        node.start()
        ledger.check()
    finally:
        node.kill()
