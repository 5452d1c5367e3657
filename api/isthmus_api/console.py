"""The console's built files. Any other path gets the page itself: the console routes in the browser."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from aiohttp import web

_PACKAGED: Final = Path(__file__).parent / "console"
_BUILT: Final = Path(__file__).parents[2] / "web" / "dist"
_API: Final = frozenset({"api", "kafka", "health", "metrics", "openapi.json"})
_FOR_EVER: Final = "public, max-age=31536000, immutable"
# The build puts a digest of the content into the names of the files in this folder.
_HASHED: Final = "assets"
_NOT_BUILT: Final = "The console is not built here. The API is described at /openapi.json.\n"


def console_directory(configured: Path | None) -> Path | None:
    """The directory of the console's files, if there is one: the operator's, the package's, or a checkout's."""
    candidates = (configured,) if configured is not None else (_PACKAGED, _BUILT)
    return next((folder.resolve() for folder in candidates if (folder / "index.html").is_file()), None)


def console_handler(directory: Path | None) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Serve every GET without a route."""

    async def serve(request: web.Request) -> web.StreamResponse:
        parts = request.match_info["path"].split("/")
        if parts[0] in _API:
            raise web.HTTPNotFound
        if directory is None:
            return web.Response(status=404, text=_NOT_BUILT)
        file = _file(directory, request.match_info["path"])
        cache = _FOR_EVER if file is not None and parts[0] == _HASHED else "no-cache"
        return web.FileResponse(file or directory / "index.html", headers={"Cache-Control": cache})

    return serve


def _file(directory: Path, path: str) -> Path | None:
    """A file within the directory; None for any other path."""
    if "\0" in path:
        return None
    file = (directory / path).resolve()
    return file if file.is_relative_to(directory) and file.is_file() else None
