"""Routes are declared once: what they are called with and how they are documented follows."""

import re

from isthmus_api.openapi import document
from isthmus_api.registry import Route, Routes, in_order
from isthmus_api.routes import all_routes
from pydantic import BaseModel


class _Path(BaseModel):
    name: str


class _Body(BaseModel):
    size: int


class _Answer(BaseModel):
    size: int


def _routes() -> Routes:
    routes = Routes("Things", "/things")

    @routes.get("/{name}")
    async def get_thing(call: object, path: _Path) -> _Answer:
        """Get a thing.

        More of it.
        """
        raise NotImplementedError

    @routes.get("/-/all")
    async def list_things(call: object) -> _Answer:
        """List them."""
        raise NotImplementedError

    @routes.put("/{name}/all")
    async def put_thing(call: object, path: _Path, body: _Body) -> None:
        """Put it."""
        raise NotImplementedError

    return routes


def test_a_signature_says_it_all() -> None:
    get, _, put = _routes().declared
    assert (get.method, get.path, get.name, get.summary) == ("GET", "/things/{name}", "get_thing", "Get a thing")
    assert (get.models, get.response, get.status, get.changes) == ({"path": _Path}, _Answer, 200, False)
    assert (put.models, put.response, put.status, put.changes) == ({"path": _Path, "body": _Body}, None, 204, True)


def test_the_word_for_all_is_tried_before_names() -> None:
    assert [route.path for route in in_order([_routes()])] == ["/things/-/all", "/things/{name}", "/things/{name}/all"]


def test_the_document_describes_parameters_bodies_and_responses() -> None:
    told = document(in_order([_routes()]), "1.2.3")
    assert told["info"]["version"] == "1.2.3"
    put = told["paths"]["/things/{name}/all"]["put"]
    assert put["parameters"] == [
        {"name": "name", "in": "path", "required": True, "schema": {"title": "Name", "type": "string"}}
    ]
    assert put["requestBody"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/_Body"}
    assert set(put["responses"]) == {"204", "4XX", "5XX"}
    assert sorted(told["components"]["schemas"]) == ["ErrorDocument", "_Answer", "_Body"]


def _references(part: object) -> set[str]:
    return set(re.findall(r"#/components/schemas/([\w.-]+)", repr(part)))


def test_our_own_document_is_whole() -> None:
    routes = all_routes()
    told = document(routes, "1")
    assert _references(told) <= told["components"]["schemas"].keys()
    assert told["components"]["schemas"].keys() <= _references(told)
    assert told["paths"]["/api/v1/session"]["post"]["security"] == []
    assert {route.name for route in routes if route.public} == {"sign_in"}


def test_every_route_has_a_summary_of_its_own() -> None:
    routes: list[Route] = all_routes()
    assert all(route.summary for route in routes)
    paths = [(route.method, route.path) for route in routes]
    assert len(set(paths)) == len(paths)
