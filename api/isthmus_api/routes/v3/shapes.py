"""What all resources of REST v3 share."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from pydantic import BaseModel, Field

from isthmus_api.models import RequestBody, Shape
from isthmus_api.request_context import KAFKA_V3, Call

CLUSTER: Final = KAFKA_V3 + "/clusters/{cluster_id}"
INT32_MAX: Final = 2**31 - 1
INT16_MAX: Final = 2**15 - 1
T = TypeVar("T")


class Metadata(Shape):
    """The URL of a resource, and its Confluent resource name."""

    here: str = Field(serialization_alias="self")
    resource_name: str | None = None


class ListMetadata(Shape):
    """The URL of a list. Lists are complete, so there is never a next page."""

    here: str = Field(serialization_alias="self")
    next: None = None


class Related(Shape):
    """The URL of another resource."""

    related: str


class Resource(Shape):
    """The base of every resource."""

    kind: str
    metadata: Metadata
    cluster_id: str


class KafkaList(Shape, Generic[T]):
    """Several resources."""

    kind: str
    metadata: ListMetadata
    data: list[T]


class ClusterPath(BaseModel):
    """One cluster."""

    cluster_id: str = Field(min_length=1)


class NewConfig(RequestBody):
    """A config of a new topic or link."""

    name: str
    value: str | None = None


def metadata(call: Call, path: tuple[object, ...], crn: tuple[object, ...]) -> Metadata:
    """Metadata of a resource; `crn` are the parts of its name."""
    pairs = "/".join(f"{key}={value}" for key, value in zip(crn[::2], crn[1::2], strict=True))
    return Metadata(here=call.url(*path), resource_name=f"crn:///{pairs}")


def listed(call: Call) -> ListMetadata:
    """Metadata of the requested list."""
    return ListMetadata(here=call.self_url)


def related(call: Call, *path: object) -> Related:
    """The URL of a resource under /kafka/v3."""
    return Related(related=call.url(*path))
