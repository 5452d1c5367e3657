"""Requests about several groups, whose shards are spread over brokers and partitions: which part goes where, and one answer of the parts.

`scatter` names the partition that each part is for; the edge asks the shards it leads and answers for the others by `refuse` with
NOT_COORDINATOR, then `gather` makes the response. ListGroups goes to every shard that the broker leads, and `gather` leaves out those
that moved away meanwhile.
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

from isthmus_broker.core.group.partition import group_partition
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
    DeleteGroupsRequest: lambda request, api_version: [
        (group_id, DeleteGroupsRequest(groups_names=(group_id,))) for group_id in dict.fromkeys(request.groups_names)
    ],
}


def scatter(request: Any, api_version: int, partitions: int) -> list[tuple[int, object]]:
    """A request with one group in each part, and each part's partition; any other request is one part, of its `group_id`."""
    parts = _PARTS.get(type(request))
    if parts is None:
        return [(group_partition(request.group_id, partitions), request)]
    return [(group_partition(group_id, partitions), part) for group_id, part in parts(request, api_version)]


def gather(request: object, responses: Sequence[Any]) -> object:
    """One response to `request` of the parts' responses, in their order."""
    gatherer = _GATHERERS.get(type(request))
    return responses[0] if gatherer is None else gatherer(responses)


def _gather_listed(responses: Iterable[ListGroupsResponse]) -> ListGroupsResponse:
    """A shard that moved away is another broker's to list; one that is loading makes the whole answer wait."""
    groups: list[ListedGroup] = []
    for response in responses:
        if response.error_code not in (ErrorCode.none, ErrorCode.not_coordinator):
            return response
        groups += response.groups
    return ListGroupsResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none, groups=tuple(groups))


def _gather_fetched(responses: Iterable[OffsetFetchResponse]) -> OffsetFetchResponse:
    """Up to version 7 there is one part, and its answer in the top-level fields is the same."""
    return fetch_response(tuple(group for response in responses for group in response.groups))


def _gather_described(responses: Iterable[DescribeGroupsResponse]) -> DescribeGroupsResponse:
    groups = tuple(group for response in responses for group in response.groups)
    return DescribeGroupsResponse(throttle_time=NO_THROTTLE, groups=groups)


def _gather_consumer_described(responses: Iterable[ConsumerGroupDescribeResponse]) -> ConsumerGroupDescribeResponse:
    groups = tuple(group for response in responses for group in response.groups)
    return ConsumerGroupDescribeResponse(throttle_time=NO_THROTTLE, groups=groups)


def _gather_deleted(responses: Iterable[DeleteGroupsResponse]) -> DeleteGroupsResponse:
    results = tuple(result for response in responses for result in response.results)
    return DeleteGroupsResponse(throttle_time=NO_THROTTLE, results=results)


_GATHERERS: Final[dict[type, Callable[[Any], object]]] = {
    ListGroupsRequest: _gather_listed,
    OffsetFetchRequest: _gather_fetched,
    DescribeGroupsRequest: _gather_described,
    ConsumerGroupDescribeRequest: _gather_consumer_described,
    DeleteGroupsRequest: _gather_deleted,
}
