"""The OpenAPI 3.1 document of the declared routes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from isthmus_api.registry import JSON, Route
from isthmus_api.security.authentication import COOKIE

_REF: Final = "#/components/schemas/{model}"
Mode = Literal["validation", "serialization"]
_PLACES: Final = ("path", "query")


class ErrorDocument(BaseModel):
    """Why a request was refused: a code whose first three digits are the status, and a message."""

    error_code: int
    message: str


def document(routes: Sequence[Route], version: str) -> dict[str, Any]:
    """The document from which clients, the console's types and tests are generated."""
    refs, definitions = _schemas(routes)
    # Fields of path and query models become parameters.
    plain = {model: definitions.pop(refs[model, "validation"]["$ref"].rsplit("/", 1)[1]) for model in _plain(routes)}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, refs, plain)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Isthmus",
            "version": version,
            "description": "The control plane: /kafka/v3 in the shapes of Confluent's REST v3, /api/v1 for everything else.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"adminKey": []}, {"session": []}],
        "tags": [{"name": tag} for tag in dict.fromkeys(route.tag for route in routes)],
        "paths": paths,
        "components": {
            "schemas": definitions,
            "securitySchemes": {
                "adminKey": {"type": "http", "scheme": "basic", "description": "The user admin with the admin key."},
                "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
            },
        },
    }


def _plain(routes: Iterable[Route]) -> set[type[BaseModel]]:
    return {route.models[place] for route in routes for place in _PLACES if place in route.models}


def _schemas(routes: Iterable[Route]) -> tuple[dict[tuple[type[BaseModel], Mode], Any], dict[str, Any]]:
    models: list[tuple[type[BaseModel], Mode]] = [(ErrorDocument, "serialization")]
    for route in routes:
        models.extend((route.models[place], "validation") for place in _PLACES if place in route.models)
        if "body" in route.models:
            models.append((route.models["body"], "validation"))
        if route.response is not None:
            models.append((route.response, "serialization"))
    refs, schema = models_json_schema(list(dict.fromkeys(models)), by_alias=True, ref_template=_REF)
    return {(model, mode): ref for (model, mode), ref in refs.items() if issubclass(model, BaseModel)}, schema.get(
        "$defs", {}
    )


def _operation(
    route: Route, refs: dict[tuple[type[BaseModel], Mode], Any], plain: dict[type[BaseModel], Any]
) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "tags": [route.tag],
        "summary": route.summary,
        "parameters": _parameters(route, plain),
        "responses": _responses(route, refs),
    }
    if route.public:
        operation["security"] = []
    if "body" in route.models:
        schema = refs[route.models["body"], "validation"]
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
    return operation


def _parameters(route: Route, plain: dict[type[BaseModel], Any]) -> list[dict[str, Any]]:
    parameters = []
    for place in _PLACES:
        model = route.models.get(place)
        schema = plain[model] if model is not None else {}
        for name, one in schema.get("properties", {}).items():
            required = place == "path" or name in schema.get("required", ())
            parameters.append({"name": name, "in": place, "required": required, "schema": one})
    named = {parameter["name"] for parameter in parameters if parameter["in"] == "path"}
    assert named == set(re.findall(r"{(\w+)}", route.path)), f"{route.name}: the path model does not fit {route.path}"
    return parameters


def _responses(route: Route, refs: dict[tuple[type[BaseModel], Mode], Any]) -> dict[str, Any]:
    error = {JSON: {"schema": refs[ErrorDocument, "serialization"]}}
    good: dict[str, Any] = {"description": route.summary}
    if route.response is not None:
        good["content"] = {route.content_type: {"schema": refs[route.response, "serialization"]}}
    elif route.content_type != JSON:
        good["content"] = {route.content_type: {"schema": {"type": "string"}}}
    return {
        str(route.status): good,
        "4XX": {"description": "The request is refused", "content": error},
        "5XX": {"description": "A cluster or the control plane is unavailable", "content": error},
    }
