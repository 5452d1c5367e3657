"""ApiVersions, versions 0 to 4: which APIs are served, and which features are supported and finalised.

A version that this broker does not know is answered by `dispatch`. Since version 3 the client tells its software's name and version.
"""

import re
from typing import Final

from isthmus_wire.apis import KAFKA_VERSIONS, ApiKey
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.api_versions.v4.response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

from isthmus_broker.core.metadata.features import SUPPORTED
from isthmus_broker.core.metadata.result import entity
from isthmus_broker.edge.api.registry import handles, served
from isthmus_broker.edge.net.connection import Request
from isthmus_broker.edge.services import Services

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SOFTWARE_SINCE: Final = 3


@handles(ApiKey.API_VERSIONS)
def api_versions(node: Services, request: Request) -> None:
    """Tell what this node serves."""
    asked: ApiVersionsRequest = request.decode()
    software = (asked.client_software_name, asked.client_software_version)
    if request.header.api_version >= _SOFTWARE_SINCE:
        if not all(_SOFTWARE.fullmatch(text) for text in software):
            request.respond(_response(ErrorCode.invalid_request, ()))
            return
        request.connection.software = software
    request.respond(describe_node(node, request.header.api_version))


def describe_node(node: Services, version: int) -> ApiVersionsResponse:
    """The whole answer; below version 4 a feature whose minimum is 0 cannot be told and is left out."""
    keys = tuple(_api_version(key, *KAFKA_VERSIONS[ApiKey(key)]) for key in served())
    supported = tuple(
        entity(SupportedFeatureKey, name=name, min_version=lowest, max_version=highest)
        for name, (lowest, highest) in sorted(SUPPORTED.items())
        if version >= 4 or lowest > 0
    )
    finalized = tuple(
        entity(FinalizedFeatureKey, name=name, max_version_level=level, min_version_level=level)
        for name, level in sorted(node.image.features.items())
        if level > 0 and name in SUPPORTED
    )
    return _response(ErrorCode.none, keys, supported, finalized, node.features_epoch)


def _api_version(key: int, lowest: int, highest: int) -> ApiVersion:
    return entity(ApiVersion, api_key=key, min_version=lowest, max_version=highest)


def _response(
    error: ErrorCode,
    keys: tuple[ApiVersion, ...],
    supported: tuple[SupportedFeatureKey, ...] = (),
    finalized: tuple[FinalizedFeatureKey, ...] = (),
    epoch: int = -1,
) -> ApiVersionsResponse:
    return entity(
        ApiVersionsResponse,
        error_code=error,
        api_keys=keys,
        throttle_time=NO_THROTTLE,
        supported_features=supported,
        finalized_features_epoch=epoch,
        finalized_features=finalized,
    )
