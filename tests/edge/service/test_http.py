"""Metrics and health over HTTP."""

import asyncio

from aiohttp import ClientSession
from isthmus_model.addresses import Address
from isthmus_service.http import observed
from prometheus_client import CollectorRegistry, Gauge


def test_metrics_and_health_are_served_and_readiness_gives_the_reason() -> None:
    registry = CollectorRegistry()
    Gauge("isthmus_test_value", "A value.", registry=registry).set(7)
    reasons = ["no quorum"]

    async def scenario() -> None:
        async with observed(Address("127.0.0.1", 0), registry, lambda: reasons[0]) as port, ClientSession() as session:
            base = f"http://127.0.0.1:{port}"
            async with session.get(f"{base}/metrics") as metrics:
                assert "isthmus_test_value 7.0" in await metrics.text()
            async with session.get(f"{base}/health/live") as live:
                assert (live.status, await live.json()) == (200, {"status": "live"})
            async with session.get(f"{base}/health/ready") as ready:
                assert (ready.status, await ready.json()) == (503, {"status": "not ready", "reason": "no quorum"})
            reasons[0] = ""
            async with session.get(f"{base}/health/ready") as ready:
                assert (ready.status, await ready.json()) == (200, {"status": "ready"})

    asyncio.run(scenario())
