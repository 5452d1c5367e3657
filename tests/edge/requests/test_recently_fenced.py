"""Brokers that were fenced a moment ago, as Metadata lists them."""

from dataclasses import replace

from isthmus_broker.core.metadata.delta import changes_between
from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.edge.requests.recently_fenced import LISTED_MS, RecentlyFenced
from isthmus_model.clocks import MonotonicMs

from tests.unit.metadata.cluster import Cluster


class Watched:
    """A cluster of three, and a clock."""

    def __init__(self) -> None:
        self.now = 1_000
        self.image = Cluster((1, 2, 3)).image
        self.recently_fenced = RecentlyFenced(lambda: MonotonicMs(self.now))

    def change(self, **brokers: bool | None) -> None:
        """Fence, unfence, or with None unregister brokers, named like `b1`."""
        known = dict(self.image.brokers)
        for name, fenced in brokers.items():
            broker_id = int(name[1:])
            if fenced is None:
                del known[broker_id]
            else:
                known[broker_id] = replace(known[broker_id], fenced=fenced)
        after: ClusterImage = replace(self.image, brokers=known)
        self.recently_fenced.changed(changes_between(self.image, after))
        self.image = after


def test_a_fenced_broker_is_listed_for_a_while() -> None:
    watched = Watched()
    watched.change(b1=True)
    watched.now += 1_000
    watched.change(b2=True)
    assert watched.recently_fenced.still_listed() == {1, 2}
    watched.now += LISTED_MS - 1_000
    assert watched.recently_fenced.still_listed() == {2}
    watched.now += 1_000
    assert watched.recently_fenced.still_listed() == set()


def test_one_that_serves_again_or_is_unregistered_is_not() -> None:
    watched = Watched()
    watched.change(b1=True, b2=True, b3=True)
    watched.change(b1=False, b2=None)
    assert watched.recently_fenced.still_listed() == {3}


def test_one_that_was_never_unfenced_is_not() -> None:
    watched = Watched()
    watched.image = replace(watched.image, brokers={1: replace(watched.image.brokers[1], fenced=True)})
    watched.change(b1=True)
    assert watched.recently_fenced.still_listed() == set()
