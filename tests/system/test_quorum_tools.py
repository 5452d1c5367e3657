"""Apache Kafka's own tools, and Apache Kafka itself, in a quorum of Isthmus."""

import json
import re
from pathlib import Path

from isthmus_client.admin.quorum import describe_quorum
from isthmus_client.ids import uuid_text

from tests.conformance.clients.java import run as run_java
from tests.kafka import running_broker_of
from tests.node import COMBINED, Cluster, running_cluster
from tests.system.quorums import (
    await_caught_up,
    await_fenced,
    await_in_sync,
    await_topics,
    brokers,
    make_topics,
    quorum,
    wait_for,
)


def properties(cluster: Cluster, number: int) -> str:
    """The settings of a node as a file."""
    node = cluster.nodes[number]
    path = node.directory / "server.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in node.settings.items()))
    return str(path)


def status(*bootstrap: str) -> dict[str, str]:
    """What kafka-metadata-quorum describe --status says."""
    lines = run_java("kafka-metadata-quorum", *bootstrap, "describe", "--status")
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def test_voters_come_and_go(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, [COMBINED, COMBINED, "controller"], dynamic=True)
    cluster.format([1, 2])
    try:
        cluster.start()
        server, controllers = (
            ("--bootstrap-server", cluster.bootstrap),
            (
                "--bootstrap-controller",
                cluster.controller_bootstrap,
            ),
        )
        wait_for(cluster.bootstrap, describe_quorum, lambda found: [each.node_id for each in found.observers] == [3])
        await_caught_up(cluster, cluster.bootstrap)
        assert run_java(
            "kafka-metadata-quorum", *controllers, "--command-config", properties(cluster, 3), "add-controller"
        )
        found = quorum(cluster.bootstrap)
        assert [voter.node_id for voter in found.voters] == [1, 2, 3]
        told = status(*server)
        assert list(told) == [
            "ClusterId",
            "LeaderId",
            "LeaderEpoch",
            "HighWatermark",
            "MaxFollowerLag",
            "MaxFollowerLagTimeMs",
            "CurrentVoters",
            "CurrentObservers",
        ]
        voters = json.loads(told["CurrentVoters"])
        assert [voter["id"] for voter in voters] == [1, 2, 3]
        places = [f"CONTROLLER://127.0.0.1:{node.controller_port}" for node in cluster.nodes.values()]
        assert [voter["endpoints"] for voter in voters] == [[place] for place in places]
        rows = run_java("kafka-metadata-quorum", *controllers, "describe", "--replication")
        assert rows[0].split() == [
            "NodeId",
            "DirectoryId",
            "LogEndOffset",
            "Lag",
            "LastFetchTimestamp",
            "LastCaughtUpTimestamp",
            "Status",
        ]
        assert sorted(row.split()[-1] for row in rows[1:]) == ["Follower", "Follower", "Leader"]

        third = next(voter.directory_id for voter in found.voters if voter.node_id == 3)
        assert third is not None
        choice = ("--controller-id", "3", "--controller-directory-id", uuid_text(third))
        assert run_java("kafka-metadata-quorum", *server, "remove-controller", *choice)
        assert [voter.node_id for voter in quorum(cluster.bootstrap).voters] == [1, 2]
        features = run_java("kafka-features", *controllers, "describe")
        (line,) = [line for line in features if line.startswith("Feature: kraft.version")]
        assert re.search(r"FinalizedVersionLevel: 1\b", line)
    finally:
        cluster.end()


def test_a_broker_of_apache_kafka_joins(tmp_path: Path) -> None:
    """It registers, follows the metadata, passes on its clients' requests, and replicates from and to a broker of Isthmus."""
    with running_cluster(tmp_path, ["controller", "controller", "controller", "broker"]) as cluster:
        own = cluster.nodes[4]
        quorum_settings = {key: value for key, value in own.settings.items() if key.startswith("controller.")}
        with running_broker_of(tmp_path / "kafka", 9, quorum_settings) as kafka:
            await_fenced(own.bootstrap, 9, fenced=False)
            assert [broker.node_id for broker in brokers(kafka.bootstrap).brokers] == [4, 9]
            make_topics(own.bootstrap, "here", partitions=2, replicas=2)
            make_topics(kafka.bootstrap, "there", partitions=2, replicas=2)
            await_topics(own.bootstrap, {"here", "there"})
            await_topics(kafka.bootstrap, {"here", "there"})
            for topic in ("here", "there"):
                await_in_sync(own.bootstrap, topic, {4, 9})
            found = quorum(kafka.bootstrap)
            assert [each.node_id for each in found.observers] == [4, 9]
            assert [each.log_end_offset for each in found.observers] == [found.high_watermark] * 2
            assert kafka.stop() in (0, 143)
            await_fenced(own.bootstrap, 9)
