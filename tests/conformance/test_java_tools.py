"""Apache Kafka's command-line tools, unmodified, against a node."""

import json
import re
from pathlib import Path

import pytest

from tests.conformance.clients.java import run, words
from tests.node import Node

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


def at(node: Node) -> tuple[str, str]:
    return ("--bootstrap-server", node.bootstrap)


def create(node: Node, topic: str, *more: str) -> None:
    lines = run("kafka-topics", *at(node), "--create", "--topic", topic, *more)
    assert lines == [f"Created topic {topic}."]


def test_topics(node: Node) -> None:
    topic = "java-topics"
    create(node, topic, "--partitions", "2", "--config", "retention.ms=1234567")
    refused = run("kafka-topics", *at(node), "--create", "--topic", topic, status=1)
    assert refused[0] == f"Error while executing topic command : Topic '{topic}' already exists."
    run("kafka-topics", *at(node), "--alter", "--topic", topic, "--partitions", "3")
    head, *partitions = run("kafka-topics", *at(node), "--describe", "--topic", topic)
    assert re.fullmatch(
        rf"Topic: {topic}\tTopicId: [\w-]{{22}}\tPartitionCount: 3\tReplicationFactor: 1\t"
        r"Configs: min.insync.replicas=1,retention.ms=1234567",
        head,
    )
    assert partitions == [
        f"\tTopic: {topic}\tPartition: {number}\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr:"
        for number in range(3)
    ]
    run("kafka-topics", *at(node), "--delete", "--topic", topic)
    assert topic not in run("kafka-topics", *at(node), "--list")


def test_configs(node: Node) -> None:
    topic = "java-configs"
    create(node, topic, "--config", "retention.ms=1234567")

    def alter(*arguments: str) -> list[str]:
        return run("kafka-configs", *at(node), "--alter", *arguments)

    def describe(*arguments: str) -> list[str]:
        return run("kafka-configs", *at(node), "--describe", *arguments)

    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    changes = ("--add-config", "cleanup.policy=[compact,delete],segment.ms=7777777", "--delete-config", "retention.ms")
    assert alter(*of_topic, *changes) == [f"Completed updating config for topic {topic}."]
    assert describe(*of_topic) == [
        f"Dynamic configs for topic {topic} are:",
        (
            "  cleanup.policy=compact,delete sensitive=false "
            "synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}"
        ),
        "  segment.ms=7777777 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:segment.ms=7777777}",
    ]
    of_broker = ("--entity-type", "brokers", "--entity-name", "1")
    assert alter(*of_broker, "--add-config", "log.cleaner.backoff.ms=14000") == [
        "Completed updating config for broker 1."
    ]
    assert describe(*of_broker)[1:] == [
        (
            "  log.cleaner.backoff.ms=14000 sensitive=false "
            "synonyms={DYNAMIC_BROKER_CONFIG:log.cleaner.backoff.ms=14000, DEFAULT_CONFIG:log.cleaner.backoff.ms=15000}"
        )
    ]
    of_group = ("--entity-type", "groups", "--entity-name", "java-configs")
    alter(*of_group, "--add-config", "consumer.session.timeout.ms=50000")
    assert describe(*of_group)[1:] == [
        (
            "  consumer.session.timeout.ms=50000 sensitive=false synonyms={DYNAMIC_GROUP_CONFIG:"
            "consumer.session.timeout.ms=50000, DEFAULT_CONFIG:group.consumer.session.timeout.ms=45000}"
        )
    ]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_console_producer_and_consumer(node: Node, compression: str) -> None:
    topic = f"java-console-{compression}"
    lines = [f"h:{number}\tk{number}\tv{number}" for number in range(20)]
    properties = ("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true")
    run(
        *("kafka-console-producer", *at(node), "--topic", topic, "--compression-codec", compression, *properties),
        stdin="\n".join(lines) + "\n",
    )
    shown = [("--formatter-property", f"print.{part}=true") for part in ("key", "headers", "offset")]
    came = run(
        *("kafka-console-consumer", *at(node), "--topic", topic, "--from-beginning", "--max-messages", "20"),
        *(argument for pair in shown for argument in pair),
    )
    assert came == [f"Offset:{number}\t{line}" for number, line in enumerate(lines)]


def consume_in_group(node: Node, topic: str, group: str, count: int, protocol: str) -> None:
    arguments = ("--group", group, "--from-beginning", "--max-messages", str(count))
    values = run(
        *("kafka-console-consumer", *at(node), "--topic", topic, *arguments),
        *("--command-property", f"group.protocol={protocol}"),
    )
    assert values == [f"v{number}" for number in range(count)]


def produce_values(node: Node, topic: str, count: int) -> None:
    run(
        *("kafka-console-producer", *at(node), "--topic", topic),
        stdin="".join(f"v{number}\n" for number in range(count)),
    )


@pytest.mark.parametrize(
    ("protocol", "kind", "strategy"), [("classic", "Classic", "-"), ("consumer", "Consumer", "uniform")]
)
def test_groups(node: Node, protocol: str, kind: str, strategy: str) -> None:
    topic = group = f"java-group-{protocol}"
    produce_values(node, topic, 10)
    consume_in_group(node, topic, group, 10, protocol)

    def groups(*arguments: str) -> list[list[str]]:
        return words(run("kafka-consumer-groups", *at(node), "--group", group, *arguments))

    assert groups("--describe")[1:] == [[group, topic, "0", "10", "10", "0", "-", "-", "-"]]
    state = [group, node.bootstrap, "(1)", strategy, "Empty", "0"]
    assert groups("--describe", "--state")[1:] == [state]
    assert [group, kind, "consumer"] in words(run("kafka-groups", *at(node), "--list"))
    deleted = groups("--delete-offsets", "--topic", topic)
    assert deleted[-1] == [topic, "0", "Successful"]
    assert groups("--delete") == [f"Deletion of requested consumer groups ('{group}') was successful.".split()]
    assert group not in run("kafka-consumer-groups", *at(node), "--list")


def test_offsets_are_reset(node: Node, tmp_path: Path) -> None:
    topic = group = "java-reset"
    produce_values(node, topic, 10)
    consume_in_group(node, topic, group, 10, "classic")

    def reset(*arguments: str, act: str = "--execute") -> list[str]:
        given = ("--topic", topic, "--reset-offsets", *arguments, act)
        return run("kafka-consumer-groups", *at(node), "--group", group, *given)[-1].split()

    assert reset("--to-earliest", act="--dry-run") == [group, topic, "0", "0"]
    assert reset("--shift-by", "-3") == [group, topic, "0", "7"]  # the dry run changed nothing
    assert reset("--to-current") == [group, topic, "0", "7"]
    assert reset("--to-offset", "4") == [group, topic, "0", "4"]
    assert reset("--to-latest") == [group, topic, "0", "10"]
    assert reset("--by-duration", "P1D") == [group, topic, "0", "0"]
    assert reset("--to-datetime", "2100-01-01T00:00:00.000") == [group, topic, "0", "10"]
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{topic},0,6\n")
    assert reset("--from-file", str(plan)) == [group, topic, "0", "6"]
    (described,) = run("kafka-consumer-groups", *at(node), "--group", group, "--describe")[1:]
    assert described.split()[:6] == [group, topic, "0", "6", "10", "4"]


def test_offsets_directories_and_deleted_records(node: Node, tmp_path: Path) -> None:
    topic = "java-offsets"
    produce_values(node, topic, 10)
    (latest,) = run("kafka-get-offsets", *at(node), "--topic", topic, "--time", "max-timestamp")
    assert re.fullmatch(rf"{topic}:0:\d", latest)
    target = tmp_path / "target.json"
    target.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 4}], "version": 1}))
    deleted = run("kafka-delete-records", *at(node), "--offset-json-file", str(target))
    assert deleted[-1] == f"partition: {topic}-0\tlow_watermark: 4"

    def offset(time: str) -> list[str]:
        return run("kafka-get-offsets", *at(node), "--topic", topic, "--time", time)

    assert offset("earliest") == offset("earliest-local") == [f"{topic}:0:4"]
    assert offset("latest") == [f"{topic}:0:10"]
    assert offset("1000") == [f"{topic}:0:4"]
    described = json.loads(run("kafka-log-dirs", *at(node), "--describe", "--topic-list", topic)[-1])
    ((directory,),) = [broker["logDirs"] for broker in described["brokers"]]
    (partition,) = directory["partitions"]
    size = (node.directory / "data" / f"{topic}-0" / "00000000000000000000.log").stat().st_size
    assert partition == {"partition": f"{topic}-0", "size": size, "offsetLag": 0, "isFuture": False}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_performance_tools(node: Node, protocol: str) -> None:
    topic = f"java-perf-{protocol}"
    produced = run(
        *("kafka-producer-perf-test", *at(node), "--topic", topic, "--num-records", "20000", "--record-size", "500"),
        *("--throughput", "-1", "--command-property", "acks=all", "compression.type=lz4"),
    )
    assert produced[-1].startswith("20000 records sent, ")
    consumed = run(
        *("kafka-consumer-perf-test", *at(node), "--topic", topic, "--num-records", "20000", "--hide-header"),
        *("--command-property", f"group.protocol={protocol}"),
    )
    columns = consumed[-1].split(", ")
    assert (columns[2], columns[4]) == (f"{20000 * 500 / 1024 / 1024:.4f}", "20000")


def test_end_to_end_latency(node: Node) -> None:
    options = ("--topic", "java-e2e", "--num-records", "100", "--producer-acks", "all", "--record-size", "100")
    lines = run("kafka-e2e-latency", *at(node), *options)
    assert re.fullmatch(r"Avg latency: [\d.]+ ms", lines[-2])
    assert lines[-1].startswith("Percentiles: 50th = ")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_verifiable_tools(node: Node, protocol: str) -> None:
    topic = f"java-verifiable-{protocol}"
    produced = [
        json.loads(line)
        for line in run(
            "kafka-verifiable-producer", *at(node), "--topic", topic, "--max-messages", "50", "--acks", "-1"
        )
    ]
    acknowledged = [event for event in produced if event["name"] == "producer_send_success"]
    assert [(event["partition"], event["offset"], event["value"]) for event in acknowledged] == [
        (0, number, str(number)) for number in range(50)
    ]
    assert (produced[-1]["sent"], produced[-1]["acked"]) == (50, 50)
    static = ("--group-instance-id", "one") if protocol == "classic" else ()
    consumed = [
        json.loads(line)
        for line in run(
            *("kafka-verifiable-consumer", *at(node), "--topic", topic, "--group-id", topic, "--max-messages", "50"),
            *("--group-protocol", protocol, "--reset-policy", "earliest", *static),
        )
    ]
    assert sum(event["count"] for event in consumed if event["name"] == "records_consumed") == 50
    commits = [event for event in consumed if event["name"] == "offsets_committed"]
    assert all(event["success"] for event in commits)
    assert commits[-1]["offsets"] == [{"topic": topic, "partition": 0, "offset": 50}]


def test_the_cluster_describes_itself(node: Node) -> None:
    versions = run("kafka-broker-api-versions", *at(node))
    assert versions[0] == f"{node.bootstrap} (id: 1 rack: null isFenced: false) -> ("
    assert {"\tProduce(0): 0 to 13 [usable: 13],", "\tFetch(1): 4 to 18 [usable: 18],"} <= set(versions)
    (identity,) = run("kafka-cluster", "cluster-id", *at(node))
    assert re.fullmatch(r"Cluster ID: [\w-]{22}", identity)
    endpoints = words(run("kafka-cluster", "list-endpoints", *at(node)))
    assert endpoints[1][:3] == ["1", "127.0.0.1", str(node.port)]
    features = [re.split(r"\s{2,}|\t", line)[0] for line in run("kafka-features", *at(node), "describe")]
    assert features == [
        f"Feature: {name}"
        for name in (
            "eligible.leader.replicas.version",
            "group.version",
            "kraft.version",
            "metadata.version",
            "streams.version",
            "transaction.version",
        )
    ]
