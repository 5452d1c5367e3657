"""What all resources of REST v3 have in common."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from pydantic import BaseModel, Field

from isthmus_api.models import Shape, Wanted
from isthmus_api.request_context import KAFKA_V3, Call

CLUSTER: Final = KAFKA_V3 + "/clusters/{cluster_id}"
INT32_MAX: Final = 2**31 - 1
INT16_MAX: Final = 2**15 - 1
T = TypeVar("T")


class Metadata(Shape):
    """Where a resource is, and its name as Confluent writes them."""

    here: str = Field(serialization_alias="self")
    resource_name: str | None = None


class ListMetadata(Shape):
    """Where a list is. Lists are whole, so there is never a next page."""

    here: str = Field(serialization_alias="self")
    next: None = None


class Related(Shape):
    """The address of another resource."""

    related: str


class Resource(Shape):
    """Every resource begins like this."""

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


class NewConfig(Wanted):
    """A config of a topic or a link that is to be."""

    name: str
    value: str | None = None


def metadata(call: Call, path: tuple[object, ...], crn: tuple[object, ...]) -> Metadata:
    """`crn` are the pairs of the resource's name."""
    pairs = "/".join(f"{key}={value}" for key, value in zip(crn[::2], crn[1::2], strict=True))
    return Metadata(here=call.url(*path), resource_name=f"crn:///{pairs}")


def listed(call: Call) -> ListMetadata:
    """Of the list that was asked for."""
    return ListMetadata(here=call.self_url)


def related(call: Call, *path: object) -> Related:
    """The address of something under /kafka/v3."""
    return Related(related=call.url(*path))
