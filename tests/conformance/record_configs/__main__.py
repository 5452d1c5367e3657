"""Records Apache Kafka's configurations anew: `python -m tests.conformance.record_configs --home KAFKA_HOME`.

KAFKA_HOME is a folder whose `libs` holds the jars. One fresh node of it is started on free ports, asked by `Dump.java`,
and stopped. What depends on the machine (folders, ports) is replaced by names, so a second recording gives the same bytes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.ports import free_ports

HERE = Path(__file__).parent
RECORDINGS = HERE.parent / "recordings" / "configs"
START_SECONDS = 60
NOTHING: Final[Mapping[str, str]] = {}
CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAQ"


def server_properties(folder: Path, broker_port: int, controller_port: int, extra: Mapping[str, str]) -> str:
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{broker_port},CONTROLLER://127.0.0.1:{controller_port}",
        "log.dirs": str(folder / "data"),
        "offsets.topic.replication.factor": "1",
        **extra,
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


@contextmanager
def running_node(
    classpath: str, folder: Path, broker_port: int, controller_port: int, extra: Mapping[str, str] = NOTHING
) -> Iterator[None]:
    """A fresh node that accepts connections; it is stopped, by its own process, on leaving."""
    properties = folder / "server.properties"
    properties.write_text(server_properties(folder, broker_port, controller_port, extra))
    storage_tool = ["java", "-cp", classpath, "kafka.tools.StorageTool"]
    subprocess.run(
        [*storage_tool, "format", "-t", CLUSTER_ID, "-c", str(properties)],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    node = subprocess.Popen(
        ["java", "-Xmx512M", "-cp", classpath, "kafka.Kafka", str(properties)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        node.terminate()
        node.wait(START_SECONDS)


def without_machine(text: str, folder: Path, broker_port: int, controller_port: int) -> str:
    names = {str(folder): "FOLDER", f":{broker_port}": ":BROKER_PORT", f":{controller_port}": ":CONTROLLER_PORT"}
    for found, name in names.items():
        text = text.replace(found, name)
    return text


def record(home: Path) -> None:
    classpath = str(home / "libs" / "*")
    broker, controller = free_ports(2)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with running_node(classpath, folder, broker, controller):
            # The admin client retries until the node responds, or gives up after a minute.
            dump = ["java", "-cp", classpath, str(HERE / "Dump.java"), f"127.0.0.1:{broker}"]
            answer = subprocess.run(dump, check=True, capture_output=True, text=True).stdout
        document: dict[str, Any] = json.loads(without_machine(answer, folder, broker, controller))
    RECORDINGS.mkdir(parents=True, exist_ok=True)
    parts = {"probes": document.pop("probes"), "described": document.pop("described"), "definitions": document}
    for part, content in parts.items():
        (RECORDINGS / f"{part}.json").write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, required=True, help="folder of Apache Kafka, with its jars in libs/")
    record(parser.parse_args().home)


if __name__ == "__main__":
    main()
