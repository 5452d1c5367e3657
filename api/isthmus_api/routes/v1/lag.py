"""Lag over time of links, mirror flows, observers and followers, from the topic `__isthmus_lag` of every cluster."""

from __future__ import annotations

from dataclasses import asdict
from typing import Literal

from isthmus_model.lag_samples import Copy, CopyKind
from pydantic import BaseModel, Field
from pydantic.dataclasses import dataclass

from isthmus_api.core.lag_series import By, buckets
from isthmus_api.limits import LAG_WINDOW_MS
from isthmus_api.models import Shape
from isthmus_api.registry import Routes
from isthmus_api.request_context import Call

routes = Routes("Lag", "/api/v1")
_TOPIC_MAX = 249


class LagQuery(BaseModel):
    """Which samples, and how to group them; an empty field matches everything."""

    by: By = Field(By.LINK, description="How samples are grouped.")
    kind: CopyKind | Literal[""] = ""
    link: str = Field("", max_length=_TOPIC_MAX)
    cluster_id: str = Field("", max_length=255, description="The cluster that holds the copy.")
    topic: str = Field("", max_length=_TOPIC_MAX)
    since_ms: int = Field(0, ge=0, le=2**53)
    step_ms: int = Field(5000, ge=1000, le=LAG_WINDOW_MS)


class LagPoint(Shape):
    """The worst within one step; `lag_ms` is null when no copy was ever caught up, `lag_records` the sum over the copies."""

    at_ms: int
    copies: int
    lag_ms: int | None
    lag_records: int


@dataclass(frozen=True, kw_only=True)
class LagSeries(Copy):
    """A group that spans several names has an empty name, partition -1 or broker -1."""

    points: list[LagPoint]


class LagDocument(Shape):
    """The requested series."""

    by: By
    step_ms: int
    series: list[LagSeries]


@routes.get("/lag")
async def get_lag(call: Call, query: LagQuery) -> LagDocument:
    """Get series of lag."""
    since = max(query.since_ms, call.parts.now_ms() - LAG_WINDOW_MS)
    chosen = (
        (copy, [point for point in points if point.at_ms >= since])
        for copy, points in call.parts.lag.ring.items()
        if _matches(copy, query)
    )
    grouped = buckets(((copy, points) for copy, points in chosen if points), query.by, query.step_ms)
    series = [
        LagSeries(
            **asdict(copy),
            points=[LagPoint.model_validate(bucket, from_attributes=True) for bucket in grouped[copy]],
        )
        for copy in sorted(grouped)
    ]
    return LagDocument(by=query.by, step_ms=query.step_ms, series=series)


def _matches(copy: Copy, query: LagQuery) -> bool:
    return (
        query.kind in ("", copy.kind)
        and query.link in ("", copy.link)
        and query.cluster_id in ("", copy.target_cluster)
        and query.topic in ("", copy.topic)
    )
