"""`python -m bench.failover`: how long a producer gets no acknowledgements after the leader of its partition dies, or stops responding.

Three nodes of each system, replication factor 3, acks=all; the clients are librdkafka and Apache Kafka's own, with their defaults and with
the timeouts of docs/failures.md. A stopped leader continues after its round.
"""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final, Protocol

from isthmus_topology.planner import FAILOVER_SETTINGS

from bench import report
from bench.__main__ import say, scratch
from bench.brokers import ISTHMUS, KAFKA, SYSTEMS
from bench.clusters import ThreeNodes
from bench.scenarios import Figure
from tests.java_stream import JAVA_TWO_SECONDS, JavaStream
from tests.stream import TWO_SECONDS, Stream

KILL: Final = "SIGKILL"
STOP: Final = "SIGSTOP"
_ROUNDS: Final = {ISTHMUS: 10, KAFKA: 5}
_KILL_ROUNDS: Final = {ISTHMUS: 30, KAFKA: 5}
"""Of Apache Kafka fewer are timed: with its defaults each takes ten seconds and a slow start."""
_LONG_ROUNDS: Final = dict.fromkeys(SYSTEMS, 2)
"""Each takes the client's own timeout, 30 or 60 seconds."""
_HEADING: Final = report.Heading(
    title="Failover beside Apache Kafka",
    how="from the fault to the acknowledgement of the next record, three nodes of each system on one machine",
    more=" [Where the time goes](../../docs/failures.md).",
)


class AnyStream(Protocol):
    """A producer that sends records all the time, as a context manager."""

    def __enter__(self) -> "AnyStream": ...

    def __exit__(self, *_: object) -> None: ...

    def seconds_until_next(self, fault: Callable[[], object] = ...) -> float:
        """The time from a fault to the acknowledgement of the first record sent after it."""
        ...


@dataclass(frozen=True, slots=True)
class Client:
    """A producer with its settings."""

    name: str
    stream: Callable[..., AnyStream]
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A fault of nodes with these settings, as a client notices it."""

    fault: str
    client: Client
    rounds: Mapping[str, int]
    nodes: Mapping[str, str] = field(default_factory=lambda: FAILOVER_SETTINGS)
    target: float | None = None
    bound: float | None = None
    """In seconds: no round with Isthmus may take longer."""

    @property
    def name(self) -> str:
        nodes = "settings of `isthmus up`" if self.nodes else "default settings"
        return f"{self.fault} of a leader, nodes with {nodes}; {self.client.name}"


DEFAULTS: Final = (Client("librdkafka, defaults", Stream), Client("Java, defaults", JavaStream))
SHORT: Final = (
    Client("librdkafka, timeouts of docs/failures.md", Stream, TWO_SECONDS),
    Client("Java, timeouts of docs/failures.md", JavaStream, JAVA_TWO_SECONDS),
)
SCENARIOS: Final = (
    Scenario(KILL, DEFAULTS[0], _KILL_ROUNDS, nodes={}, target=0.2),
    *(Scenario(KILL, client, _ROUNDS) for client in (*DEFAULTS, *SHORT)),
    *(Scenario(STOP, client, _LONG_ROUNDS) for client in DEFAULTS),
    *(Scenario(STOP, client, _ROUNDS, bound=3.0) for client in SHORT),
)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.failover", description=__doc__)
    parser.add_argument("--rounds", type=int, default=max(_KILL_ROUNDS.values()), help="at most, of each scenario")
    parser.add_argument("--only", default="", metavar="NAME", help="scenarios whose name contains this")
    arguments = parser.parse_args()
    chosen = [one for one in SCENARIOS if arguments.only in one.name]
    rows, facts = report.Rows(), report.conditions(arguments.rounds)
    facts["rounds"] = f"2 to {arguments.rounds}"
    late = []
    with scratch() as directory:
        for system in SYSTEMS:
            for number, nodes in enumerate(({}, FAILOVER_SETTINGS)):
                if scenarios := [one for one in chosen if one.nodes == nodes]:
                    cluster = ThreeNodes(system, directory / f"{system}-{number}", settings=nodes)
                    late += _measure(cluster, scenarios, rows, arguments.rounds)
    print(report.write(rows.complete(), facts, f"failover{'-only' * bool(arguments.only)}", _HEADING).read_text())
    if late:
        sys.exit("\n".join(late))


def _measure(cluster: ThreeNodes, scenarios: list[Scenario], rows: report.Rows, most: int) -> list[str]:
    """Add the figures to the rows; returns those that exceed their bounds."""
    late, random = [], Random(0)
    try:
        cluster.start()
        with cluster.topic("struck", 1) as topic:
            for scenario in scenarios:
                taken: list[float] = []
                for number in range(min(most, scenario.rounds[cluster.name])):
                    seconds = _strike(cluster, topic, scenario, random)
                    say(number, scenario.name, cluster.name, {"seconds": seconds})
                    taken.append(seconds)
                    rows.add(scenario.name, {"median": Figure("s")}, cluster.name, {"median": seconds})
                worst = {"worst": Figure("s", target=scenario.target)}
                rows.add(scenario.name, worst, cluster.name, {"worst": max(taken)})
                if cluster.name == ISTHMUS and scenario.bound is not None and max(taken) >= scenario.bound:
                    late.append(f"{scenario.name}: {max(taken):.2f} s, not less than {scenario.bound} s")
            cluster.await_in_sync(topic)
    finally:
        cluster.stop()
    return late


def _strike(cluster: ThreeNodes, topic: str, scenario: Scenario, random: Random) -> float:
    """One round; every node serves afterwards. The fault comes at a random moment of the client's intervals."""
    cluster.await_in_sync(topic)
    leader = cluster.brokers[cluster.leader(topic)]
    with scenario.client.stream(cluster.bootstrap, topic, **scenario.client.settings) as stream:
        stream.seconds_until_next()
        time.sleep(1.0 + random.random())
        if scenario.fault == KILL:
            seconds = stream.seconds_until_next(leader.kill)
        else:
            seconds = stream.seconds_until_next(partial(leader.signal, signal.SIGSTOP))
            leader.signal(signal.SIGCONT)
    if scenario.fault == KILL:
        leader.start()
        leader.await_serving()
    cluster.await_brokers()
    return seconds


if __name__ == "__main__":
    main()
