"""One direction of a link: delay, shared bandwidth, losses as delay."""

import random

from isthmus_topology.description import Weather
from isthmus_topology.wan.direction import RETRANSMIT_SECONDS, Direction


def direction(**weather: float) -> Direction:
    return Direction(Weather(**weather), random.Random(1))


def test_without_weather_everything_arrives_at_once() -> None:
    assert direction().arrival(5.0, 1_000_000) == 5.0


def test_latency_is_added_to_the_time_the_bandwidth_takes() -> None:
    line = direction(latency_ms=40, bandwidth_mbit=8)  # a megabyte a second
    assert line.arrival(0.0, 500_000) == 0.54
    assert line.arrival(0.1, 500_000) == 1.04, "what follows waits for what is being sent"
    assert line.arrival(3.0, 0) == 3.04
    assert line.carried == 1_000_000


def test_jitter_stays_within_its_bounds() -> None:
    line = direction(latency_ms=10, jitter_ms=4)
    delays = [line.arrival(0.0, 1) for _ in range(1_000)]
    assert 0.006 <= min(delays) < 0.0065
    assert 0.0135 < max(delays) <= 0.014


def test_a_loss_costs_a_retransmission_and_a_larger_piece_is_hit_more_often() -> None:
    line = direction(loss=0.01)
    small = sum(line.arrival(0.0, 100) for _ in range(10_000)) / 10_000
    large = sum(line.arrival(0.0, 144_800) for _ in range(10_000)) / 10_000
    assert 0.008 * RETRANSMIT_SECONDS < small < 0.012 * RETRANSMIT_SECONDS
    assert 0.6 * RETRANSMIT_SECONDS < large < 0.7 * RETRANSMIT_SECONDS
