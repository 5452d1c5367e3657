"""Records a metadata log of Apache Kafka again: `python -m tests.unit.metadata.record --home KAFKA_HOME`.

A fresh node creates, changes and deletes a little of everything, driven by Kafka's own tools; its log and its last snapshot are kept.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.conformance.record_configs.__main__ import running_node
from tests.ports import free_ports

RECORDINGS = Path(__file__).parent / "recordings"
TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
ACLS = "org.apache.kafka.tools.AclCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
COMMANDS = (
    (TOPICS, "--create --topic alpha --partitions 3 --config retention.ms=1000 --config cleanup.policy=compact"),
    (TOPICS, "--create --topic beta --partitions 1"),
    (TOPICS, "--alter --topic beta --partitions 4"),
    (TOPICS, "--create --topic gone --partitions 2 --config min.insync.replicas=2"),
    (CONFIGS, "--alter --entity-type topics --entity-name beta --add-config min.insync.replicas=2,segment.ms=77"),
    (
        CONFIGS,
        "--alter --entity-type users --entity-name alice --add-config SCRAM-SHA-256=[iterations=8192,password=x]",
    ),
    (CONFIGS, "--alter --entity-type users --entity-name carol --add-config SCRAM-SHA-256=[password=x]"),
    (CONFIGS, "--alter --entity-type users --entity-name carol --delete-config SCRAM-SHA-256"),
    (CONFIGS, "--alter --entity-type clients --entity-default --add-config producer_byte_rate=1024"),
    (CONFIGS, "--alter --entity-type clients --entity-name c --add-config consumer_byte_rate=1024"),
    (CONFIGS, "--alter --entity-type clients --entity-name c --delete-config consumer_byte_rate"),
    (CONFIGS, "--alter --entity-type brokers --entity-default --add-config message.max.bytes=2000000"),
    (CONFIGS, "--alter --entity-type groups --entity-name g --add-config consumer.session.timeout.ms=50000"),
    (ACLS, "--add --allow-principal User:bob --operation Read --topic alpha"),
    (ACLS, "--add --allow-principal User:eve --operation Read --topic beta"),
    (ACLS, "--remove --force --allow-principal User:eve --operation Read --topic beta"),
    (PRODUCER, "--topic beta"),
    (TOPICS, "--delete --topic gone"),
)
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "true",
    "metadata.log.max.snapshot.interval.ms": "5000",
    "broker.rack": "eu-west/a",
}


def record(home: Path) -> None:
    classpath = str(home / "libs" / "*")
    broker, controller = free_ports(2)
    with tempfile.TemporaryDirectory() as name:
        with running_node(classpath, Path(name), broker, controller, SETTINGS):
            for tool, arguments in COMMANDS:
                command = ["java", "-cp", classpath, tool, "--bootstrap-server", f"127.0.0.1:{broker}"]
                subprocess.run([*command, *arguments.split()], check=True, input=b"a record\n", capture_output=True)
        log = Path(name) / "data" / "__cluster_metadata-0"
        shutil.rmtree(RECORDINGS, ignore_errors=True)
        RECORDINGS.mkdir()
        for file in (log / "00000000000000000000.log", max(log.glob("*.checkpoint"))):
            shutil.copyfile(file, RECORDINGS / file.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, required=True, help="folder of Apache Kafka, with its jars in libs/")
    record(parser.parse_args().home)


if __name__ == "__main__":
    main()
