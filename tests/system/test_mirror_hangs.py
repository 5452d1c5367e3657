"""The mirror beside brokers that hang: they are stopped (SIGSTOP), not dead, so nothing closes a connection."""

from pathlib import Path

from isthmus_client.metadata import TopicPartition

from tests.node import COMBINED, running_cluster, running_node
from tests.system.mirrors import running_mirror
from tests.system.quorums import leaders
from tests.system.test_linker import RF3, fill, make
from tests.system.test_linker_hangs import PATIENT, hanging, led_by, write
from tests.system.test_mirror import QUICK, assert_copied, await_topic, both


def test_a_broker_of_the_source_that_hangs_holds_up_its_own_partitions_alone(tmp_path: Path) -> None:
    with (
        running_cluster(tmp_path / "west", [COMBINED] * 3, settings=RF3 | PATIENT) as west,
        running_node(tmp_path / "east") as east,
    ):
        make(west.bootstrap, "orders", 6)
        fill(west.bootstrap, "orders", 6, 300)
        clusters = {"west": west.bootstrap, "east": east.bootstrap}
        with running_mirror(tmp_path / "mirror", clusters, QUICK):
            await_topic(east.bootstrap, "west.orders")
            assert_copied(west.bootstrap, east.bootstrap, both(6))
            place = led_by(west.bootstrap, "orders")
            hung = place[TopicPartition("orders", 0)]
            assert hung is not None
            others = {source: copy for source, copy in both(6).items() if place[source] != hung}
            assert 0 < len(others) < 6
            with hanging(west, hung) as rest:
                for _ in range(3):
                    write(rest, others)
                    assert_copied(rest, east.bootstrap, others)
            write(west.bootstrap, both(6))
            assert_copied(west.bootstrap, east.bootstrap, both(6))


def test_a_leader_of_the_target_that_hangs_is_left_for_the_next_one(tmp_path: Path) -> None:
    with (
        running_node(tmp_path / "west") as west,
        running_cluster(tmp_path / "east", [COMBINED] * 3, settings=RF3) as east,
    ):
        make(west.bootstrap, "orders", 6)
        fill(west.bootstrap, "orders", 6, 300)
        with running_mirror(tmp_path / "mirror", {"west": west.bootstrap, "east": east.bootstrap}, QUICK):
            await_topic(east.bootstrap, "west.orders")
            assert_copied(west.bootstrap, east.bootstrap, both(6))
            hung = max(leader for leader in leaders(east.bootstrap, "west.orders") if leader is not None)
            with hanging(east, hung) as rest:
                fill(west.bootstrap, "orders", 6, 300)
                assert_copied(west.bootstrap, rest, both(6))
            assert_copied(west.bootstrap, east.bootstrap, both(6))
