"""Signing in and out, for the console: a session is a cookie that scripts cannot read and other sites' pages cannot send."""

from __future__ import annotations

from aiohttp import web
from pydantic import Field

from isthmus_api.limits import SESSION_SECONDS
from isthmus_api.models import RequestBody, Shape
from isthmus_api.registry import Routes
from isthmus_api.request_context import Call
from isthmus_api.security.authentication import ADMIN, ANYBODY, COOKIE, Unauthenticated, remote_of

routes = Routes("Session", "/api/v1")


class SignIn(RequestBody):
    """The admin key."""

    key: str = Field(max_length=200)


class Session(Shape):
    """The signed-in user."""

    actor: str


@routes.post("/session", public=True, response=Session)
async def sign_in(call: Call, body: SignIn) -> web.Response:
    """Sign in."""
    remote, now = remote_of(call.request), call.parts.now_ms()
    try:
        call.parts.door.check_key(body.key, remote)
    except Unauthenticated as problem:
        entry = await call.parts.audit.begin(now, ANYBODY, remote, "sign_in", "/api/v1/session")
        await call.parts.audit.end(entry, problem.status, problem.message)
        raise
    entry = await call.parts.audit.begin(now, ADMIN, remote, "sign_in", "/api/v1/session")
    await call.parts.audit.end(entry, 200, "")
    token = await call.parts.door.begin_session(ADMIN)
    response = web.json_response(Session(actor=ADMIN).model_dump())
    response.set_cookie(
        COOKIE, token, max_age=SESSION_SECONDS, httponly=True, samesite="Strict", secure=call.request.secure, path="/"
    )
    return response


@routes.get("/session")
async def get_session(call: Call) -> Session:
    """Get the signed-in user."""
    return Session(actor=call.actor)


@routes.delete("/session", status=204)
async def sign_out(call: Call) -> web.Response:
    """Sign out."""
    await call.parts.door.end_session(call.request)
    response = web.Response(status=204)
    response.del_cookie(COOKIE, path="/")
    return response
