"""Clusters of several processes: elections, continued service without a controller, and equal metadata on all nodes."""

import time
from pathlib import Path
from typing import Final

from tests.conformance.clients.java import run as run_java
from tests.node import COMBINED, running_cluster
from tests.system.quorums import (
    await_caught_up,
    await_fenced,
    await_in_sync,
    await_topics,
    leaders,
    make_topics,
    metadata_logs,
    quorum,
)

FAILOVER_SECONDS: Final = 5.0
"""Apache Kafka waits nine for a broker's session alone; on a quiet machine it takes a tenth of a second here."""


def test_three_nodes_go_on_without_any_one_of_them(tmp_path: Path) -> None:
    with running_cluster(tmp_path, [COMBINED] * 3) as cluster:
        made = set()
        for number, node in cluster.nodes.items():
            make_topics(node.bootstrap, f"by-{number}", partitions=3)
            made.add(f"by-{number}")
        epoch = 0
        for turn in range(2):
            leader = quorum(cluster.bootstrap).leader_id
            left = ",".join(node.bootstrap for number, node in cluster.nodes.items() if number != leader)
            killed = time.monotonic()
            cluster.nodes[leader].kill()
            found = quorum(left)
            await_fenced(left, leader)
            assert time.monotonic() - killed < FAILOVER_SECONDS
            assert found.leader_id != leader
            assert found.epoch > epoch
            epoch = found.epoch
            make_topics(left, f"without-{turn}", partitions=2)
            made.add(f"without-{turn}")
            cluster.nodes[leader].start()
            await_topics(cluster.nodes[leader].bootstrap, made)
        await_caught_up(cluster, cluster.bootstrap)
        cluster.end()
        logs = metadata_logs(cluster)
        assert logs[1] == logs[2] == logs[3]
        (file,) = cluster.nodes[1].metadata.glob("*.log")
        said = run_java("kafka-dump-log", "--cluster-metadata-decoder", "--files", str(file))
        assert {
            name for name in made if any(f'"TOPIC_RECORD","version":0,"data":{{"name":"{name}"' in s for s in said)
        } == made


def test_three_controllers_and_two_brokers(tmp_path: Path) -> None:
    roles = ["controller", "controller", "controller", "broker", "broker"]
    with running_cluster(tmp_path, roles, dynamic=True) as cluster:
        first, second = (cluster.nodes[number] for number in cluster.brokers)
        make_topics(first.bootstrap, "a", partitions=2, replicas=2)
        found = quorum(second.bootstrap)
        assert [voter.node_id for voter in found.voters] == [1, 2, 3]
        assert [observer.node_id for observer in found.observers] == [4, 5]
        cluster.nodes[found.leader_id].kill()
        make_topics(second.bootstrap, "b")
        assert quorum(first.bootstrap).epoch > found.epoch

        first.kill()
        await_fenced(second.bootstrap, 4)
        assert leaders(second.bootstrap, "a") == {5}
        make_topics(second.bootstrap, "c")
        first.start()
        await_topics(first.bootstrap, {"a", "b", "c"})
        await_in_sync(second.bootstrap, "a", {4, 5})

        assert second.stop() == 0
        await_fenced(first.bootstrap, 5)
        assert leaders(first.bootstrap, "a") == {4}
        second.start()
        cluster.nodes[found.leader_id].start()
        await_caught_up(cluster, cluster.bootstrap)
        cluster.end()
        assert len(set(metadata_logs(cluster).values())) == 1


def test_a_node_that_was_down_for_long_gets_a_snapshot(tmp_path: Path) -> None:
    settings = {"metadata.log.max.record.bytes.between.snapshots": "4000"}
    with running_cluster(tmp_path, [COMBINED] * 3, settings=settings) as cluster:
        leader = quorum(cluster.bootstrap).leader_id
        away = next(number for number in cluster.nodes if number != leader)
        end = {voter.node_id: voter.log_end_offset for voter in quorum(cluster.bootstrap).voters}[away]
        node = cluster.nodes[away]
        node.kill()
        bootstrap = cluster.nodes[leader].bootstrap
        names = [f"t{number}" for number in range(12)]
        for name in names:
            make_topics(bootstrap, name, partitions=20)
        for file in node.metadata.glob("*.checkpoint"):
            assert int(file.name.partition("-")[0]) <= end
        node.start()
        await_topics(node.bootstrap, set(names))
        snapshots = sorted(int(file.name.partition("-")[0]) for file in node.metadata.glob("*.checkpoint"))
        assert snapshots[0] > end
        segments = sorted(int(file.stem) for file in node.metadata.glob("*.log"))
        assert segments[0] in snapshots
        await_caught_up(cluster, cluster.bootstrap)
