"""Topology files: the built-in one, what is filled in, and what is refused with a sentence."""

from importlib.resources import files
from pathlib import Path

import pytest
from isthmus_topology.description import NodeGroup, Weather, read_topology
from isthmus_topology.planner import make_plan
from isthmus_topology.reading import TopologyRefused

BUILT_IN = (files("isthmus_topology") / "built_in" / "stretched.toml").read_text()
SMALL = """
regions = ["west", "east"]
[[clusters]]
name = "one"
[[clusters.nodes]]
region = "west"
brokers = 2
voters = 1
"""


def with_link(link: str) -> str:
    return SMALL.replace("[[clusters]]", f"[[links]]\n{link}\n[[clusters]]")


def test_the_built_in_topology_is_three_regions_with_observers() -> None:
    topology = read_topology(BUILT_IN)
    assert len(topology.regions) == len(topology.links) == 3
    (cluster,) = topology.clusters
    assert [(group.brokers, group.voters) for group in cluster.nodes] == [(3, 1)] * 3
    assert "observers" in cluster.topics[0].config["isthmus.placement.constraints"]


def test_what_a_file_leaves_out_has_a_default() -> None:
    topology = read_topology(SMALL)
    assert topology.links == ()
    assert topology.clusters[0].nodes == (NodeGroup("west", 2, 1, 0),)
    assert topology.clusters[0].topics == ()


def test_the_weather_of_a_link_is_in_integers_or_decimals() -> None:
    text = with_link('between = ["west", "east"]\nlatency_ms = 4\nloss = 0.01')
    assert read_topology(text).links[0].weather == Weather(latency_ms=4.0, loss=0.01)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("regions = [", "regions = ", "not TOML"),
        ('"east"]', '"west"]', "each region once"),
        ('"east"]', '"East"]', "is not a name"),
        ("brokers = 2", "brokers = 2\nbroker = 3", "has broker"),
        ("brokers = 2", "brokers = true", "must be a number"),
        ("voters = 1", "voters = 3", "cannot vote"),
        ("voters = 1", "", "has no voters"),
        ('region = "west"', 'region = "north"', "names region 'north'"),
        ('name = "one"', 'name = "one"\ntopics = [{partitions = 3}]', "has no name"),
        ('name = "one"', 'name = "one"\nconfig = {a = [1]}', "must be a table of texts"),
        ("brokers = 2", "brokers = 60\ncontrollers = 1", "exceed the maximum"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(old: str, new: str, why: str) -> None:
    with pytest.raises(TopologyRefused, match=why):
        read_topology(SMALL.replace(old, new))


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ('between = ["west", "west"]', "joins two regions"),
        ('between = ["west", "north"]', "names region 'north'"),
        ('between = ["west", "east"]\nloss = 1', "from 0 to 0.5"),
    ],
)
def test_a_link_that_cannot_be(link: str, why: str) -> None:
    with pytest.raises(TopologyRefused, match=why):
        read_topology(with_link(link))


def test_every_region_has_its_own_way_to_every_node() -> None:
    plan = make_plan(read_topology(BUILT_IN), Path("/somewhere"))
    ports = [port for node in plan.nodes for port in node.bound.values()]
    ports += [node.controller_bound for node in plan.nodes if node.controller_bound is not None]
    ports += [relay.port for relay in plan.relays]
    assert len(set(ports)) == len(ports), "a port is given once"
    for node in plan.nodes:
        assert node.advertised[node.region] == node.bound[node.region]
        for region in set(node.advertised) - {node.region}:
            (relay,) = [relay for relay in plan.relays if relay.port == node.advertised[region]]
            assert (relay.near, relay.far, relay.target) == (region, node.region, node.bound[region])
    assert [node.bound[node.region] for node in plan.nodes] == list(range(19092, 19101))


def test_a_node_finds_the_voters_by_the_way_of_its_region() -> None:
    plan = make_plan(read_topology(BUILT_IN), Path("/somewhere"))
    voters = [node for node in plan.nodes if node.is_controller]
    for node in plan.nodes:
        wanted = ",".join(f"{v.node_id}@127.0.0.1:{v.controller_advertised[node.region]}" for v in voters)
        assert node.settings["controller.quorum.voters"] == wanted


def test_names_of_nodes_include_their_cluster() -> None:
    second = SMALL[SMALL.index("[[clusters]]") :].replace('"one"', '"two"')
    plan = make_plan(read_topology(SMALL + second), Path("/somewhere"))
    assert [node.name for node in plan.nodes] == ["one-west-1", "one-west-2", "two-west-1", "two-west-2"]
    assert [node.node_id for node in plan.nodes] == [1, 2, 1, 2]
    assert plan.bootstrap("two", "east").count(":") == 2, "a region without brokers is sent to those there are"
