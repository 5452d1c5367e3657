"""`python -m bench.region_cut`: the built-in platform loses the region of a leader, and a producer in another region continues.

The topic is placed as `orders` is: the region that is cut off has two of three sync replicas, and an observer is promoted. The clients have
the timeouts of docs/failures.md. The command fails if a round takes as long as the goal.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib.resources import files
from random import Random
from typing import Any, Final

from isthmus_client.admin.topics import NewTopic
from isthmus_client.admin.topics import describe as describe_topics
from isthmus_client.metadata import Topic

from bench import report
from bench.__main__ import scratch
from bench.failover import SHORT, Client
from tests.system.quorums import quorum, wait_for
from tests.system.stretched import Stretched, running

ROUNDS: Final = 10
GOAL_SECONDS: Final = 6.0
LOST: Final = "eu-west"
NEAR: Final = "eu-north"
_OTHERS: Final = (NEAR, "us-east")
_PLATFORM: Final = (files("isthmus_topology") / "built_in" / "platform.toml").read_text()


@dataclass(frozen=True, slots=True)
class Round:
    """One cut."""

    client: str
    controller_was_lost: bool
    seconds: float


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.region_cut", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of each client (%(default)s)")
    arguments = parser.parse_args()
    facts = report.conditions(arguments.rounds)
    with scratch() as directory, running(directory, _PLATFORM) as cluster:
        random = Random(0)
        rounds = [
            _cut_off(cluster, client, f"cut-{number}-{index}", random)
            for number in range(arguments.rounds)
            for index, client in enumerate(SHORT)
        ]
    data = {"conditions": facts, "rounds": list(map(asdict, rounds))}
    print(report.save("region-cut", data, _table(rounds, facts)).read_text())
    if max(one.seconds for one in rounds) >= GOAL_SECONDS:
        sys.exit(f"a round took {GOAL_SECONDS} s or longer")


def _cut_off(cluster: Stretched, client: Client, topic: str, random: Random) -> Round:
    """Cut the region off, and heal; every broker serves afterwards."""
    orders = next(one for one in cluster.site.topology.clusters[0].topics if one.name == "orders")
    cluster.make(LOST, NewTopic(topic, 1, -1, configs=orders.config))
    wait_for(cluster.bootstrap(LOST), lambda admin: describe_topics(admin, [topic]), lambda now: _is_led(cluster, now))
    controller = cluster.names[quorum(cluster.bootstrap(LOST)).leader_id]
    with client.stream(cluster.bootstrap(NEAR), topic, **client.settings) as stream:
        stream.seconds_until_next()
        time.sleep(1.0 + random.random())
        seconds = stream.seconds_until_next(partial(_cut, cluster))
        cluster.heal()
    cluster.await_brokers(NEAR, fenced=())  # the brokers that were cut off may not yet know that they are fenced
    done = Round(client.name, cluster.site.find(controller).region == LOST, seconds)
    print(f"{time.strftime('%H:%M:%S')} {done}", flush=True)
    return done


def _cut(cluster: Stretched) -> None:
    for other in _OTHERS:
        cluster.cut(LOST, other)


def _is_led(cluster: Stretched, topics: Mapping[str, Topic]) -> bool:
    """Whether the region that is cut off next leads, and all sync replicas are in sync."""
    partition = next(iter(topics.values())).partitions[0]
    if partition.leader not in cluster.names or len(partition.in_sync) < len(_OTHERS) + 1:
        return False
    return cluster.site.find(cluster.names[partition.leader]).region == LOST


def _table(rounds: list[Round], facts: Mapping[str, Any]) -> list[str]:
    by_client: dict[str, list[float]] = {}
    for one in rounds:
        by_client.setdefault(one.client, []).append(one.seconds)
    lost = sum(one.controller_was_lost for one in rounds)
    return [
        f"# Cut of {LOST} in the built-in platform",
        "",
        f"From the cut to the acknowledgement of the next record of a producer in {NEAR}. In {lost} of {len(rounds)} rounds the active",
        "controller was cut off as well. Every round is in the JSON file beside this one.",
        "",
        *(f"- {name}: {value}" for name, value in facts.items()),
        "",
        "| client | median, s | worst, s | goal, s |",
        "|---|--:|--:|--:|",
        *(
            f"| {client} | {statistics.median(seconds):.1f} | {max(seconds):.1f} | {GOAL_SECONDS:.1f} |"
            for client, seconds in by_client.items()
        ),
    ]


if __name__ == "__main__":
    main()
