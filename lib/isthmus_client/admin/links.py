"""Links of a destination cluster: create, describe, alter, delete. Only Isthmus clusters have them."""

from collections.abc import Collection, Mapping
from uuid import UUID

from isthmus_wire.apis import ApiKey
from isthmus_wire.extensions.links import (
    AlterLinkRequest,
    CreateLinkRequest,
    DeleteLinkRequest,
    DescribedLink,
    DescribedTask,
    DescribeLinksRequest,
    LinkConfig,
    LinkError,
    LinkState,
    ReportLinkRequest,
)

from isthmus_client.client import Client
from isthmus_client.errors import check


async def create_link(
    client: Client,
    name: str,
    configs: Mapping[str, str],
    *,
    source_cluster_id: str | None = None,
    validate_link: bool = True,
    validate_only: bool = False,
) -> UUID | None:
    """Create a link and return its id, or None if only validated. `validate_link` connects to the source. Raises Refused."""
    request = CreateLinkRequest(
        name=name,
        source_cluster_id=source_cluster_id,
        configs=_configs(configs),
        validate_link=validate_link,
        validate_only=validate_only,
    )
    response = await client.send_to_controller(ApiKey.CREATE_LINK, request, lambda r: (r.error_code,))
    check(response.error_code, f"link {name}", response.error_message)
    link_id: UUID | None = response.link_id
    return link_id


async def describe_links(client: Client, names: Collection[str] | None = None) -> list[DescribedLink]:
    """Describe these links, or all; raises Refused for one that does not exist."""
    request = DescribeLinksRequest(names=None if names is None else tuple(names))
    response = await client.send_to_any(ApiKey.DESCRIBE_LINKS, request)
    for link in response.links:
        check(link.error_code, f"link {link.name}", f"there is no link '{link.name}'")
    return list(response.links)


async def alter_link(
    client: Client, name: str, changes: Mapping[str, str | None], *, validate_only: bool = False
) -> None:
    """Change settings, all or none; None restores the default. Raises Refused."""
    request = AlterLinkRequest(name=name, changes=_configs(changes), validate_only=validate_only)
    response = await client.send_to_controller(ApiKey.ALTER_LINK, request, lambda r: (r.error_code,))
    check(response.error_code, f"link {name}", response.error_message)


async def delete_link(client: Client, name: str, *, force: bool = False, validate_only: bool = False) -> None:
    """Delete a link; raises Refused while it has mirror topics, unless `force` fails them over."""
    request = DeleteLinkRequest(name=name, force=force, validate_only=validate_only)
    response = await client.send_to_controller(ApiKey.DELETE_LINK, request, lambda r: (r.error_code,))
    check(response.error_code, f"link {name}", response.error_message)


async def report_link(
    client: Client,
    link_id: UUID,
    state: LinkState,
    error: LinkError = LinkError.NO_ERROR,
    message: str = "",
    tasks: Collection[DescribedTask] = (),
) -> None:
    """Report a link's state as a worker observed it; raises Refused."""
    request = ReportLinkRequest(
        link_id=link_id, state=state, link_error=error, link_error_message=message, tasks=tuple(tasks)
    )
    response = await client.send_to_controller(ApiKey.REPORT_LINK, request, lambda r: (r.error_code,))
    check(response.error_code, f"link {link_id}", response.error_message)


def _configs(settings: Mapping[str, str | None] | Mapping[str, str]) -> tuple[LinkConfig, ...]:
    return tuple(LinkConfig(name=name, value=value) for name, value in settings.items())
