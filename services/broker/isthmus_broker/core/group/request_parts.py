"""Requests about several groups, whose shards may be on several brokers: their parts, and one response for all parts.

`split_request` names the partition of each part. The edge submits the parts to the shards on this node, refuses the others with
NOT_COORDINATOR, and merges the responses. ListGroups goes to every shard of the broker; shards that have moved meanwhile are omitted.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from isthmus_wire.requests import OffsetFetchRequest, OffsetFetchResponse
from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_describe.v1.response import ConsumerGroupDescribeResponse
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_groups.v2.response import DeleteGroupsResponse
from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.describe_groups.v6.response import DescribeGroupsResponse
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.list_groups.v5.response import ListedGroup, ListGroupsResponse
from kio.schema.streams_group_describe.v0.request import StreamsGroupDescribeRequest
from kio.schema.streams_group_describe.v0.response import StreamsGroupDescribeResponse

from isthmus_broker.core.coordinator.partition import coordinator_partition
from isthmus_broker.core.group.responses import FETCH_GROUPS_VERSION, fetch_groups, fetch_response


def _fetch_parts(request: OffsetFetchRequest, api_version: int) -> list[tuple[str, Any]]:
    if api_version < FETCH_GROUPS_VERSION:
        return [(request.group_id, request)]
    return [
        (group.group_id, OffsetFetchRequest(groups=(group,), require_stable=request.require_stable))
        for group in fetch_groups(request, api_version)
    ]


_PARTS: Final[dict[type, Callable[[Any, int], list[tuple[str, Any]]]]] = {
    OffsetFetchRequest: _fetch_parts,
    DescribeGroupsRequest: lambda request, api_version: [
        (
            group_id,
            DescribeGroupsRequest(
                groups=(group_id,), include_authorized_operations=request.include_authorized_operations
            ),
        )
        for group_id in request.groups
    ],
    ConsumerGroupDescribeRequest: lambda request, api_version: [
        (
            group_id,
            ConsumerGroupDescribeRequest(
                group_ids=(group_id,), include_authorized_operations=request.include_authorized_operations
            ),
        )
        for group_id in request.group_ids
    ],
    StreamsGroupDescribeRequest: lambda request, api_version: [
        (
            group_id,
            StreamsGroupDescribeRequest(
                group_ids=(group_id,), include_authorized_operations=request.include_authorized_operations
            ),
        )
        for group_id in request.group_ids
    ],
    DeleteGroupsRequest: lambda request, api_version: [
        (group_id, DeleteGroupsRequest(groups_names=(group_id,))) for group_id in dict.fromkeys(request.groups_names)
    ],
}


def split_request(request: Any, api_version: int, partitions: int) -> list[tuple[int, object]]:
    """Split a request by group, with each part's partition; a request about one group is its only part."""
    parts = _PARTS.get(type(request))
    if parts is None:
        return [(coordinator_partition(request.group_id, partitions), request)]
    return [(coordinator_partition(group_id, partitions), part) for group_id, part in parts(request, api_version)]


def merge_responses(request: object, responses: Sequence[Any]) -> object:
    """Merge the responses of the parts, in their order, into the response to `request`."""
    merge = _MERGES.get(type(request))
    return responses[0] if merge is None else merge(responses)


def _merge_listed(responses: Iterable[ListGroupsResponse]) -> ListGroupsResponse:
    """A shard that has moved is listed by another broker; one that is loading delays the whole response."""
    groups: list[ListedGroup] = []
    for response in responses:
        if response.error_code not in (ErrorCode.none, ErrorCode.not_coordinator):
            return response
        groups += response.groups
    return ListGroupsResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none, groups=tuple(groups))


def _merge_fetched(responses: Iterable[OffsetFetchResponse]) -> OffsetFetchResponse:
    """Up to version 7 there is one part. Its response has the same fields at the top level."""
    return fetch_response(tuple(group for response in responses for group in response.groups))


def _merge_described(responses: Iterable[DescribeGroupsResponse]) -> DescribeGroupsResponse:
    groups = tuple(group for response in responses for group in response.groups)
    return DescribeGroupsResponse(throttle_time=NO_THROTTLE, groups=groups)


def _merge_consumer_described(responses: Iterable[ConsumerGroupDescribeResponse]) -> ConsumerGroupDescribeResponse:
    groups = tuple(group for response in responses for group in response.groups)
    return ConsumerGroupDescribeResponse(throttle_time=NO_THROTTLE, groups=groups)


def _merge_streams_described(responses: Iterable[StreamsGroupDescribeResponse]) -> StreamsGroupDescribeResponse:
    groups = tuple(group for response in responses for group in response.groups)
    return StreamsGroupDescribeResponse(throttle_time=NO_THROTTLE, groups=groups)


def _merge_deleted(responses: Iterable[DeleteGroupsResponse]) -> DeleteGroupsResponse:
    results = tuple(result for response in responses for result in response.results)
    return DeleteGroupsResponse(throttle_time=NO_THROTTLE, results=results)


_MERGES: Final[dict[type, Callable[[Any], object]]] = {
    ListGroupsRequest: _merge_listed,
    OffsetFetchRequest: _merge_fetched,
    DescribeGroupsRequest: _merge_described,
    ConsumerGroupDescribeRequest: _merge_consumer_described,
    StreamsGroupDescribeRequest: _merge_streams_described,
    DeleteGroupsRequest: _merge_deleted,
}
