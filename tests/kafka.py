"""Apache Kafka itself, for tests and benches: its jars by Maven coordinates, its commands, and nodes of it.

`scripts/apache-kafka fetch` puts everything into `.tools/apache-kafka-<version>`; the registry is whatever Maven is configured with.
"""

import hashlib
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

from isthmus_broker.core.config.node_config import EMBEDDED_DEFAULTS
from isthmus_model.uuid_text import uuid_text

from tests.node import CLUSTER_ID as CLUSTER_ID
from tests.ports import free_ports
from tests.process import Process

VERSION: Final = "4.3.1"
HOME: Final = Path(__file__).parent.parent / ".tools" / f"apache-kafka-{VERSION}"
START_SECONDS: Final = 120

_LOG4J: Final = "2.25.4"
_COORDINATES: Final = (
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-server", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.apache.kafka", "kafka-shell", VERSION),
    ("org.apache.kafka", "kafka-streams", VERSION),
    ("org.apache.kafka", "connect-file", VERSION),
    # Kafka logs through interfaces; these are the logger behind them.
    ("org.apache.logging.log4j", "log4j-core", _LOG4J),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", _LOG4J),
)
_NAMESPACE: Final = "org.apache.kafka.tools"
_COMMANDS: Final = {
    "kafka-broker-api-versions": f"{_NAMESPACE}.BrokerApiVersionsCommand",
    "kafka-cluster": f"{_NAMESPACE}.ClusterTool",
    "connect-distributed": "org.apache.kafka.connect.cli.ConnectDistributed",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": f"{_NAMESPACE}.consumer.ConsoleConsumer",
    "kafka-console-producer": f"{_NAMESPACE}.ConsoleProducer",
    "kafka-consumer-groups": f"{_NAMESPACE}.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": f"{_NAMESPACE}.ConsumerPerformance",
    "kafka-delete-records": f"{_NAMESPACE}.DeleteRecordsCommand",
    "kafka-dump-log": f"{_NAMESPACE}.DumpLogSegments",
    "kafka-e2e-latency": f"{_NAMESPACE}.EndToEndLatency",
    "kafka-features": f"{_NAMESPACE}.FeatureCommand",
    "kafka-get-offsets": f"{_NAMESPACE}.GetOffsetShell",
    "kafka-groups": f"{_NAMESPACE}.GroupsCommand",
    "kafka-leader-election": f"{_NAMESPACE}.LeaderElectionCommand",
    "kafka-log-dirs": f"{_NAMESPACE}.LogDirsCommand",
    "kafka-metadata-quorum": f"{_NAMESPACE}.MetadataQuorumCommand",
    "kafka-producer-perf-test": f"{_NAMESPACE}.ProducerPerformance",
    "kafka-reassign-partitions": f"{_NAMESPACE}.reassign.ReassignPartitionsCommand",
    "kafka-replica-verification": f"{_NAMESPACE}.ReplicaVerificationTool",
    "kafka-server-start": "kafka.Kafka",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-streams-groups": f"{_NAMESPACE}.streams.StreamsGroupCommand",
    "kafka-topics": f"{_NAMESPACE}.TopicCommand",
    "kafka-transactions": f"{_NAMESPACE}.TransactionsCommand",
    "kafka-verifiable-consumer": f"{_NAMESPACE}.VerifiableConsumer",
    "kafka-verifiable-producer": f"{_NAMESPACE}.VerifiableProducer",
}
_LOGGING: Final = """\
Configuration:
  Appenders:
    Console:
      name: STDERR
      target: SYSTEM_ERR
      PatternLayout:
        pattern: "%d %p %c: %m%n"
  Loggers:
    Root:
      level: "${env:KAFKA_LOG_LEVEL:-WARN}"
      AppenderRef:
        - ref: STDERR
"""
_SCRIPT: Final = """\
#!/bin/sh
here=$(dirname "$0")/..
exec java ${{KAFKA_HEAP_OPTS:-{heap}}} ${{KAFKA_JVM_PERFORMANCE_OPTS:-{jvm}}} $KAFKA_OPTS \\
  -Dlog4j2.configurationFile="$here/config/log4j2.yaml" -cp "$here/libs/*" {main_class} "$@"
"""
_SMALL_HEAP: Final = "-Xmx512M -Xms128M"
"""Several nodes and their clients share one machine."""
SHORT_LIVED_JVM: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""For programs that live for seconds: the optimizing compiler would take more processor time than it saves."""
_ARCHIVE: Final = "classes.jsa"
"""Classes as a JVM has loaded them; one that cannot use them only starts later."""
_CHECKPOINT: Final = "bootstrap.checkpoint"
"""The feature levels that `kafka-storage format` writes into a directory: the same for every node."""


def _quick_jvm(home: str | Path) -> str:
    """For Kafka's own nodes and tools in tests."""
    return " ".join((*SHORT_LIVED_JVM, f"-XX:SharedArchiveFile={home}/{_ARCHIVE}"))


_TOOL_JVM: Final = _quick_jvm("$here")
# What Kafka's own start script gives a broker.
_SERVER_JVM: Final = (
    "-server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 "
    "-XX:+ExplicitGCInvokesConcurrent -Djava.awt.headless=true"
)


def fetch(home: Path = HOME) -> Path:
    """The jars and commands in `home`; nothing is done when they are there, as this file wants them."""
    complete = home / "complete"
    wanted = hashlib.sha256(
        repr((_COORDINATES, _COMMANDS, _SCRIPT, _LOGGING, _TOOL_JVM, _CHECKPOINT)).encode()
    ).hexdigest()
    if complete.exists() and complete.read_text() == wanted:
        return home
    for folder in ("libs", "config", "bin"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    copy_jars(home / "libs", _COORDINATES)
    (home / "config" / "log4j2.yaml").write_text(_LOGGING)
    for name, main_class in _COMMANDS.items():
        is_server = name == "kafka-server-start"
        script = home / "bin" / f"{name}.sh"
        heap, jvm = ("-Xmx1G -Xms1G", _SERVER_JVM) if is_server else ("-Xmx512M", _TOOL_JVM)
        script.write_text(_SCRIPT.format(heap=heap, jvm=jvm, main_class=main_class))
        script.chmod(0o755)
    _prepare_nodes(home)
    complete.write_text(wanted)
    return home


def _prepare_nodes(home: Path) -> None:
    """Do once what every node would repeat: format a directory, and load classes, a quarter of the processor time of a start."""
    archive = home / _ARCHIVE
    archive.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        node = KafkaNode(Path(directory))
        subprocess.run(
            [home / "bin" / "kafka-storage.sh", "format", "-t", node.cluster_id, "-c", node.write_properties()],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        shutil.copy(Path(node.settings["log.dirs"], _CHECKPOINT), home)
        node.environment["KAFKA_JVM_PERFORMANCE_OPTS"] = " ".join(
            (*SHORT_LIVED_JVM, f"-XX:ArchiveClassesAtExit={archive}")
        )
        node.start()
        node.stop()


def copy_jars(folder: Path, coordinates: Iterable[tuple[str, str, str]]) -> None:
    """These artifacts and all that they need, by Maven."""
    wanted = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
        for group, artifact, version in coordinates
    )
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch) / "pom.xml"
        project.write_text(
            "<project><modelVersion>4.0.0</modelVersion><groupId>isthmus</groupId><artifactId>peers</artifactId>"
            f"<version>1</version><dependencies>{wanted}</dependencies></project>"
        )
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
        subprocess.run(["mvn", "--quiet", "--batch-mode", "--file", project, *goal], check=True)


class KafkaNode(Process):
    """One combined node of Apache Kafka in a process of its own, with the same defaults as an embedded Isthmus node."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None, port: int | None = None) -> None:
        super().__init__(directory / "kafka.log")
        self.directory = directory
        free, self.controller_port = free_ports(2)
        self.port = port or free
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.cluster_id = CLUSTER_ID
        self.environment = {"KAFKA_JVM_PERFORMANCE_OPTS": _quick_jvm(HOME)}
        self.settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "log.dirs": str(directory / "data"),
            **EMBEDDED_DEFAULTS,
            **(settings or {}),
        }

    def start(self) -> None:
        """Format the directory if that is still to be done, start, and wait until it accepts connections."""
        self.launch()
        self.await_connection()

    def launch(self) -> None:
        """Start without waiting: a node of a cluster may need others to serve."""
        command = [HOME / "bin" / "kafka-server-start.sh", self.write_properties()]
        data = Path(self.settings["log.dirs"])
        if not (data / "meta.properties").exists():
            self._format(data)
        self._spawn(command, os.environ | self.environment, prints_ready=False)

    def write_properties(self) -> Path:
        """The settings as the file that Kafka's commands read."""
        self.directory.mkdir(parents=True, exist_ok=True)
        properties = self.directory / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))
        return properties

    def _format(self, data: Path) -> None:
        """As `kafka-storage format` leaves a directory, without another JVM."""
        data.mkdir(parents=True, exist_ok=True)
        shutil.copy(HOME / _CHECKPOINT, data)
        (data / "meta.properties").write_text(
            f"version=1\ncluster.id={self.cluster_id}\nnode.id={self.settings['node.id']}\ndirectory.id={uuid_text(uuid4())}\n"
        )

    def await_connection(self) -> None:
        """Wait until it accepts connections."""
        assert self._process is not None
        pause = threading.Event()
        for _ in range(START_SECONDS * 20):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert self._process.poll() is None, f"Apache Kafka did not start:\n{self.log_path.read_text()[-4000:]}"
            pause.wait(0.05)
        self.kill()
        raise TimeoutError(f"Apache Kafka does not respond on port {self.port}")


@contextmanager
def running_kafka(
    directory: Path, settings: Mapping[str, str] | None = None, port: int | None = None
) -> Iterator[KafkaNode]:
    """A node of Apache Kafka that ends with the block."""
    node = KafkaNode(directory, settings, port)
    try:
        node.start()
        yield node
    finally:
        node.stop()


class KafkaCluster:
    """Several combined nodes of Apache Kafka, with ids from 1."""

    def __init__(self, directory: Path, count: int, settings: Mapping[str, str]) -> None:
        self.nodes = {number: KafkaNode(directory / f"node-{number}") for number in range(1, count + 1)}
        voters = ",".join(f"{number}@127.0.0.1:{node.controller_port}" for number, node in self.nodes.items())
        for number, node in self.nodes.items():
            node.environment["KAFKA_HEAP_OPTS"] = _SMALL_HEAP
            node.settings |= {"node.id": str(number), "controller.quorum.voters": voters, **settings}

    @property
    def bootstrap(self) -> str:
        """All nodes."""
        return ",".join(node.bootstrap for node in self.nodes.values())

    def start(self, *numbers: int) -> None:
        """Start these nodes, by default all, and wait until they accept connections."""
        chosen = [self.nodes[number] for number in numbers or self.nodes]
        for node in chosen:
            node.launch()
        for node in chosen:
            node.await_connection()


@contextmanager
def running_kafka_cluster(directory: Path, count: int, settings: Mapping[str, str]) -> Iterator[KafkaCluster]:
    """A cluster of Apache Kafka that ends with the block."""
    cluster = KafkaCluster(directory, count, settings)
    try:
        cluster.start()
        yield cluster
    finally:
        for node in cluster.nodes.values():
            node.kill()
