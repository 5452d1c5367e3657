"""Apache Kafka's own tools, and Apache Kafka itself, in a quorum of Isthmus."""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from isthmus_client.admin.quorum import Quorum, describe_quorum
from isthmus_client.admin.topics import NewTopic, create
from isthmus_client.client import Client
from isthmus_model.uuid_text import uuid_text
from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest
from kio.schema.update_features.v2.response import UpdateFeaturesResponse

from tests.conformance.clients.java import run as run_java
from tests.kafka import KafkaNode, running_kafka
from tests.node import COMBINED, Cluster, running_cluster
from tests.system.quorums import (
    await_caught_up,
    await_fenced,
    await_in_sync,
    await_topics,
    brokers,
    make_topics,
    metadata_logs,
    query,
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


def test_a_controller_joins_by_itself_and_again_with_another_disk(tmp_path: Path) -> None:
    # The leader of two must not give up before the other is back: its old self, without which there is no majority, is gone for good.
    settings = {"controller.quorum.auto.join.enable": "true", "controller.quorum.fetch.timeout.ms": "120000"}
    cluster = Cluster(tmp_path, [COMBINED, "controller"], settings=settings, dynamic=True)
    cluster.format([1])
    try:
        cluster.start()
        bootstrap, second = cluster.nodes[1].bootstrap, cluster.nodes[2]
        first = wait_for(bootstrap, describe_quorum, lambda found: [each.node_id for each in found.voters] == [1, 2])
        query(
            bootstrap, lambda client: create(client, [NewTopic("t", 1, 1)])
        )  # takes both: the second is a voter for good
        second.kill()
        shutil.rmtree(second.directory / "data")
        cluster.format([])
        second.start()
        lost = first.voters[1].directory_id
        wait_for(
            bootstrap,
            describe_quorum,
            lambda found: len(found.voters) == 2 and found.voters[1].directory_id not in (None, lost),
        )
    finally:
        cluster.end()


def test_a_running_quorum_is_upgraded_to_voters_in_the_log(tmp_path: Path) -> None:
    """kraft.version 0 to 1: voters can be removed afterwards, and the settings no longer say who they are."""
    with running_cluster(tmp_path, ["controller", "controller", COMBINED]) as cluster:
        controllers = ("--bootstrap-controller", cluster.controller_bootstrap)
        upgrade = ("kafka-features", *controllers, "upgrade", "--feature", "kraft.version=1")
        await_caught_up(cluster, cluster.bootstrap)
        assert [voter.directory_id for voter in quorum(cluster.bootstrap).voters] == [None] * 3
        assert run_java(*upgrade) == ["kraft.version was upgraded to 1."]
        downgrade = ("kafka-features", *controllers, "downgrade", "--feature", "kraft.version=0")
        assert "Can't downgrade the version of this feature." in "".join(run_java(*downgrade, status=1))
        directories = {voter.node_id: voter.directory_id for voter in quorum(cluster.bootstrap).voters}
        assert None not in directories.values()

        leader = quorum(cluster.bootstrap).leader_id
        removed = 1 if leader != 1 else 2
        directory = directories.pop(removed)
        assert directory is not None
        choice = ("--controller-id", str(removed), "--controller-directory-id", uuid_text(directory))
        assert run_java("kafka-metadata-quorum", *controllers, "remove-controller", *choice)
        for node in cluster.nodes.values():
            node.stop()
        cluster.start()
        found = await_caught_up(cluster, cluster.bootstrap)
        assert {voter.node_id: voter.directory_id for voter in found.voters} == directories
        assert [observer.node_id for observer in found.observers] == [removed]


@contextmanager
def as_apache_kafka(cluster: Cluster, number: int) -> Iterator[KafkaNode]:
    """Apache Kafka in the place of one node, which must not have been started."""
    node = cluster.nodes[number]
    shutil.rmtree(node.directory)
    port = node.port if "broker" in cluster.roles[number] else node.controller_port
    protocols = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"}
    with running_kafka(node.directory, {**node.settings, **protocols}, port) as kafka:
        yield kafka


def test_a_broker_of_apache_kafka_joins(tmp_path: Path) -> None:
    """It registers, follows the metadata, passes on its clients' requests, and replicates from and to a broker of Isthmus."""
    cluster = Cluster(tmp_path, ["controller", "controller", "controller", "broker", "broker"])
    cluster.format()
    try:
        cluster.start(1, 2, 3, 4)
        own = cluster.nodes[4]
        with as_apache_kafka(cluster, 5) as kafka:
            await_fenced(own.bootstrap, 5, fenced=False)
            assert [broker.node_id for broker in brokers(kafka.bootstrap).brokers] == [4, 5]
            make_topics(own.bootstrap, "here", partitions=2, replicas=2)
            make_topics(kafka.bootstrap, "there", partitions=2, replicas=2)
            await_topics(own.bootstrap, {"here", "there"})
            await_topics(kafka.bootstrap, {"here", "there"})
            for topic in ("here", "there"):
                await_in_sync(own.bootstrap, topic, {4, 5})
            await_caught_up(cluster, kafka.bootstrap)
            assert kafka.stop() in (0, 143)
            await_fenced(own.bootstrap, 5)
    finally:
        cluster.end()


async def upgrade_quorum(client: Client) -> UpdateFeaturesResponse:
    """Request kraft.version 1, which is refused until every voter has described itself to the leader."""
    update = entity(FeatureUpdateKey, feature="kraft.version", max_version_level=1, upgrade_type=1)
    request = entity(
        UpdateFeaturesRequest, timeout=timedelta(seconds=30), feature_updates=(update,), validate_only=False
    )
    response: UpdateFeaturesResponse = await client.send_to_controller(
        ApiKey.UPDATE_FEATURES, request, lambda r: (r.error_code,)
    )
    return response


def ends(found: Quorum) -> dict[int, int]:
    """The log end offsets of Apache Kafka's voter and of the broker."""
    replicas = (*found.voters, *found.observers)
    return {replica.node_id: replica.log_end_offset for replica in replicas if replica.node_id in (3, 4)}


def test_a_controller_of_apache_kafka_votes(tmp_path: Path) -> None:
    """One of three voters: the quorum needs it when another is gone, may be led by it, and is upgraded with it."""
    settings = {"metadata.max.idle.interval.ms": "0"}  # else Kafka, once it leads, appends twice a second
    cluster = Cluster(tmp_path, ["controller", "controller", "controller", "broker"], settings=settings)
    cluster.format()
    try:
        cluster.start(1, 2, 4)
        make_topics(cluster.bootstrap, "before")
        with as_apache_kafka(cluster, 3):
            await_caught_up(cluster, cluster.bootstrap)
            wait_for(cluster.bootstrap, upgrade_quorum, lambda response: response.error_code is ErrorCode.none)
            assert None not in [voter.directory_id for voter in quorum(cluster.bootstrap).voters]
            cluster.nodes[quorum(cluster.bootstrap).leader_id].kill()
            make_topics(cluster.bootstrap, "after")
            await_topics(cluster.bootstrap, {"before", "after"})
            wait_for(
                cluster.bootstrap,
                describe_quorum,
                lambda found: ends(found) == {3: found.high_watermark, 4: found.high_watermark},
            )
            logs = metadata_logs(cluster)
            assert len({logs[3], logs[4]}) == 1
    finally:
        cluster.end()
