"""`isthmus mirror`: mirror flows between clusters, by MirrorMaker's file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isthmus_cli.options import listen_address

if TYPE_CHECKING:
    from isthmus_mirror.core.settings import MirrorSettings
    from isthmus_model.addresses import Address


FileOption = Annotated[Path, typer.Option("-c", "--config", metavar="FILE", help="MirrorMaker's mm2.properties.")]
ClustersOption = Annotated[
    str | None,
    typer.Option("--clusters", metavar="A,B", help="Run the flows to these clusters alone. [default: to all]"),
]
HttpOption = Annotated[
    str | None,
    typer.Option("--http", metavar="HOST:PORT", help="Serve /metrics and /health here; port 0 takes any."),
]


def mirror(config: FileOption, clusters: ClustersOption = None, http: HttpOption = None) -> None:
    """Run mirror flows until SIGTERM or Ctrl-C. Several processes share the work; none keeps state."""
    from isthmus_mirror.core.settings import SettingsRefused, read_settings
    from isthmus_model.endpoints import parse_bootstrap
    from isthmus_service.logs import set_up_logs

    try:
        settings = read_settings(config.read_text())
        for bootstrap in settings.bootstrap.values():
            parse_bootstrap(bootstrap)
        set_up_logs("mirror")
    except (OSError, SettingsRefused) as error:
        raise typer.BadParameter(f"{config}: {error}", param_hint="'-c'") from error
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    chosen = {alias.strip() for alias in (clusters or "").split(",") if alias.strip()}
    if unknown := sorted(chosen - settings.bootstrap.keys()):
        raise typer.BadParameter(f"{config} has no cluster '{unknown[0]}'", param_hint="'--clusters'")
    import uvloop

    raise typer.Exit(uvloop.run(_run(settings, chosen, listen_address(http))))


async def _run(settings: "MirrorSettings", clusters: set[str], http: "Address | None") -> int:
    from isthmus_mirror.edge.main import run_mirror

    from isthmus_cli.service_run import run_until_signal

    return await run_until_signal("mirror", lambda stopping: run_mirror(settings, clusters, http, stopping))
