"""ApiVersions: the served APIs, and the supported and finalised features.

`dispatch` responds to unsupported versions of ApiVersions. Since version 3 the client sends its software's name and version; Isthmus' own
APIs are advertised only to Isthmus' own clients.
"""

import re
from functools import lru_cache
from typing import Final

from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions import FIRST_OWN_KEY
from isthmus_wire.messages import NO_THROTTLE, encode_response
from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.api_versions.v4.response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

from isthmus_broker.core.metadata.features import SUPPORTED
from isthmus_broker.core.metadata.image import KRAFT_VERSION
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.requests.table import Side, served
from isthmus_broker.edge.transport.connection import Request

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SOFTWARE_SINCE: Final = 3
_OWN_SOFTWARE: Final = "isthmus"


def handle(node: NodeServices, request: Request) -> None:
    """Respond with the APIs and features of this node."""
    body: ApiVersionsRequest = request.decode()
    version = request.header.api_version
    software = (body.client_software_name, body.client_software_version)
    if version >= _SOFTWARE_SINCE:
        if not all(_SOFTWARE.fullmatch(text) for text in software):
            request.respond(_response(ErrorCode.invalid_request, ()))
            return
        request.connection.software = software
    on_controllers = request.connection.listener_name in node.config.listeners.controller_names
    side = Side.CONTROLLER if on_controllers else Side.BROKER
    is_own_client = body.client_software_name == _OWN_SOFTWARE
    levels = {**node.image.features, KRAFT_VERSION: node.quorum.kraft_version}
    request.reply(_complete(version, side, is_own_client, tuple(sorted(levels.items())), node.features_epoch))


@lru_cache(maxsize=64)
def _complete(version: int, side: Side, with_own: bool, levels: tuple[tuple[str, int], ...], epoch: int) -> bytes:
    """The complete response, the same for each connection.

    Below version 4 a feature whose minimum is 0 cannot be encoded and is omitted.
    """
    advertised = [(key, versions) for key, versions in served(side).items() if key < FIRST_OWN_KEY or with_own]
    keys = tuple(_api_version(key, *versions) for key, versions in advertised)
    supported = tuple(
        entity(SupportedFeatureKey, name=name, min_version=lowest, max_version=highest)
        for name, (lowest, highest) in sorted(SUPPORTED.items())
        if version >= 4 or lowest > 0
    )
    finalized = tuple(
        entity(FinalizedFeatureKey, name=name, max_version_level=level, min_version_level=level)
        for name, level in levels
        if level > 0 and name in SUPPORTED
    )
    response = _response(ErrorCode.none, keys, supported, finalized, epoch)
    return encode_response(ApiKey.API_VERSIONS, version, response)


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
