"""Partitions move between log directories under load, and nothing acknowledged is lost, doubled or out of order."""

from contextlib import closing
from functools import partial
from pathlib import Path

from tests.conformance.clients.kafka_python import KafkaAdminClient, NewTopic
from tests.node import running_node
from tests.system.ledger import PARTITIONS, Ledger, wait_until

MOVES = 4
RECORDS_A_MOVE = 300


def test_moving_logs_under_load_loses_nothing(tmp_path: Path) -> None:
    directories = [tmp_path / "one", tmp_path / "two"]
    with running_node(tmp_path, {"log.dirs": ",".join(map(str, directories))}) as node:
        with closing(KafkaAdminClient(bootstrap_servers=node.bootstrap)) as admin:
            admin.create_topics([NewTopic("ledger", PARTITIONS, 1)])
            ledger = Ledger(node.bootstrap, "ledger")
            for move in range(MOVES):
                ledger.wait_for(ledger.total() + RECORDS_A_MOVE)
                target = directories[move % 2]
                admin.alter_replica_log_dirs({("ledger", number, 1): str(target) for number in range(PARTITIONS)})
                wait_until(partial(moved_to, target), f"all partitions in {target.name}")
            ledger.finish()
        ledger.check()


def moved_to(directory: Path) -> bool:
    """Every partition's log is there under its own name."""
    return all((directory / f"ledger-{partition}").is_dir() for partition in range(PARTITIONS))
