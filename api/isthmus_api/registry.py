"""Routes, declared once: validation and the OpenAPI document follow from a handler's signature.

    routes = Routes("Topics", "/kafka/v3/clusters/{cluster_id}")

    @routes.get("/topics/{topic_name}")
    async def get_topic(call: Call, path: TopicPath) -> TopicData:
        ...

The arguments `path`, `query` and `body`, where a handler has them, are pydantic models, and so is what it returns; None becomes a 204.
A handler that returns a response of aiohttp names its model with `response`. Every route that is not `public` needs the admin key or a
session, and every route that changes something is audited.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar, get_type_hints

from aiohttp import web
from pydantic import BaseModel, ValidationError

from isthmus_api.problems import Problem

Handler = TypeVar("Handler", bound=Callable[..., Awaitable[Any]])
Model = type[BaseModel]
JSON: Final = "application/json"
_ARGUMENTS: Final = ("path", "query", "body")


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path."""

    method: str
    path: str
    tag: str
    name: str
    summary: str
    handler: Callable[..., Awaitable[Any]]
    models: dict[str, Model]
    response: Model | None
    status: int
    public: bool
    content_type: str

    @property
    def changes(self) -> bool:
        """Whether it changes anything."""
        return self.method != "GET"


class Routes:
    """The routes of one resource."""

    def __init__(self, tag: str, prefix: str) -> None:
        self.tag = tag
        self.declared: list[Route] = []
        self._prefix = prefix

    def get(self, path: str, **options: Any) -> Callable[[Handler], Handler]:
        """Declare a GET."""
        return self._declare("GET", path, **options)

    def post(self, path: str, **options: Any) -> Callable[[Handler], Handler]:
        """Declare a POST."""
        return self._declare("POST", path, **options)

    def put(self, path: str, **options: Any) -> Callable[[Handler], Handler]:
        """Declare a PUT."""
        return self._declare("PUT", path, **options)

    def patch(self, path: str, **options: Any) -> Callable[[Handler], Handler]:
        """Declare a PATCH."""
        return self._declare("PATCH", path, **options)

    def delete(self, path: str, **options: Any) -> Callable[[Handler], Handler]:
        """Declare a DELETE."""
        return self._declare("DELETE", path, **options)

    def _declare(
        self,
        method: str,
        path: str,
        *,
        status: int | None = None,
        response: Model | None = None,
        public: bool = False,
        content_type: str = JSON,
    ) -> Callable[[Handler], Handler]:
        def declare(handler: Handler) -> Handler:
            hints = get_type_hints(handler)
            returned = hints["return"]
            model = response or (returned if inspect.isclass(returned) and issubclass(returned, BaseModel) else None)
            models: dict[str, Model] = {name: hints[name] for name in _ARGUMENTS if name in hints}
            nothing = model is None and content_type == JSON
            self.declared.append(
                Route(
                    method=method,
                    path=self._prefix + path,
                    tag=self.tag,
                    name=handler.__name__,
                    summary=inspect.cleandoc(handler.__doc__ or "").split("\n")[0].rstrip("."),
                    handler=handler,
                    models=models,
                    response=model,
                    status=status or (204 if nothing else 200),
                    public=public,
                    content_type=content_type,
                )
            )
            return handler

        return declare


def in_order(groups: Iterable[Routes]) -> list[Route]:
    """All routes, with the literal "-" (all items) before the name of one item."""
    routes = [route for group in groups for route in group.declared]
    names = [route.name for route in routes]
    assert len(set(names)) == len(names), f"two routes with one name: {sorted(names)}"
    return sorted(routes, key=lambda route: [(part.startswith("{"), part) for part in route.path.split("/")])


async def arguments_of(route: Route, request: web.Request) -> dict[str, BaseModel]:
    """The handler's arguments; raises Problem for an invalid request."""
    given: dict[str, BaseModel] = {}
    for name, model in route.models.items():
        try:
            given[name] = await _argument(name, model, request)
        except ValidationError as error:
            raise Problem(_STATUS_OF_INVALID[name], _explained(name, error)) from error
    return given


# An invalid path is not found, as in REST v3.
_STATUS_OF_INVALID: Final = {"path": 404, "query": 400, "body": 422}


async def _argument(name: str, model: Model, request: web.Request) -> BaseModel:
    if name == "path":
        return model.model_validate(dict(request.match_info))
    if name == "query":
        repeated = [key for key in set(request.query) if len(request.query.getall(key)) > 1]
        if repeated:
            raise Problem(400, f"query parameter {sorted(repeated)[0]} is given more than once")
        return model.model_validate(dict(request.query))
    if request.content_type != JSON:
        raise Problem(415, f"the body must be {JSON}, not {request.content_type}")
    return model.model_validate_json(await request.read())


def _explained(name: str, error: ValidationError) -> str:
    """All errors in one line, with their locations."""
    faults = []
    for fault in error.errors(include_url=False, include_context=False, include_input=False):
        where = ".".join([name, *(str(part) for part in fault["loc"])])
        faults.append(f"{where}: {fault['msg']}")
    return "; ".join(faults)


def response_of(route: Route, result: object) -> web.StreamResponse:
    """The HTTP response for a handler's result."""
    if isinstance(result, web.StreamResponse):
        return result
    if result is None:
        return web.Response(status=route.status)
    assert isinstance(result, BaseModel)
    return web.Response(status=route.status, body=result.model_dump_json(by_alias=True), content_type=JSON)
