"""Requests are asked for the admin key or a session here, and changes that come from other sites' pages are turned away."""

from __future__ import annotations

import hmac
import secrets
from base64 import b64decode
from binascii import Error as NotBase64
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from isthmus_model.clocks import WallClock

from isthmus_api.limits import SESSION_SECONDS
from isthmus_api.problems import UNAUTHENTICATED, Problem
from isthmus_api.security.admin_key import digest_of
from isthmus_api.security.attempts import Attempts
from isthmus_api.store.access import Access

ADMIN: Final = "admin"
ANYBODY: Final = "anybody"
COOKIE: Final = "isthmus_session"
_TOKEN_BYTES: Final = 32
_SAME: Final = frozenset({"same-origin", "none"})


class Unauthenticated(Problem):
    """Neither key nor session."""

    def __init__(self, message: str) -> None:
        super().__init__(401, message, UNAUTHENTICATED)


class TooManyFailures(Problem):
    """Guessing takes a while."""

    def __init__(self, seconds: int) -> None:
        super().__init__(429, f"Too many wrong keys came from here; try again in {seconds} s.")
        self.seconds = seconds


class Door:
    """Knows the digest of the admin key; sessions are in the database, so that every process knows them."""

    def __init__(self, access: Access, admin_digest: str, now_ms: WallClock) -> None:
        self._access = access
        self._admin_digest = admin_digest
        self._now_ms = now_ms
        self._attempts = Attempts()

    async def actor(self, request: web.Request) -> str:
        """Who sent it; raises Problem."""
        header = request.headers.get("Authorization")
        if header is not None:
            return self._by_header(header, remote_of(request))
        token = request.cookies.get(COOKIE)
        if token:
            actor = await self._access.session_actor(digest_of(token), self._now_ms())
            if actor is not None:
                return actor
            raise Unauthenticated("The session is over; sign in again.")
        raise Unauthenticated("Send the admin key by basic authentication (admin and the key), or sign in.")

    def check_key(self, key: str, remote: str) -> None:
        """Raises Problem unless it is the admin key."""
        wait = self._attempts.wait_seconds(remote, self._now_ms())
        if wait:
            raise TooManyFailures(wait)
        if not hmac.compare_digest(digest_of(key), self._admin_digest):
            self._attempts.failed(remote, self._now_ms())
            raise Unauthenticated("The key is wrong.")
        self._attempts.succeeded(remote)

    def _by_header(self, header: str, remote: str) -> str:
        scheme, _, credentials = header.partition(" ")
        if scheme.lower() != "basic":
            raise Unauthenticated("Only basic authentication is known.")
        try:
            user, _, key = b64decode(credentials, validate=True).decode().partition(":")
        except (NotBase64, UnicodeDecodeError) as error:
            raise Unauthenticated("The Authorization header is not one of basic authentication.") from error
        if user != ADMIN:
            key = ""  # an unknown user costs as much as a wrong key
        self.check_key(key, remote)
        return ADMIN

    async def begin_session(self, actor: str) -> str:
        """A token for the cookie."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        now = self._now_ms()
        await self._access.add_session(digest_of(token), actor, now, now + SESSION_SECONDS * 1000)
        return token

    async def end_session(self, request: web.Request) -> None:
        """The session of this request, when it has one."""
        token = request.cookies.get(COOKIE)
        if token:
            await self._access.end_session(digest_of(token))


def remote_of(request: web.Request) -> str:
    """The address it came from, as the socket says: headers of proxies are anybody's to write."""
    return request.remote or "unknown"


def check_origin(request: web.Request) -> None:
    """Raises Problem for a change that the page of another site asks for. Browsers say where a request comes from; other clients do not."""
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    foreign = origin is not None and urlsplit(origin).netloc != request.host
    if foreign or (site is not None and site not in _SAME):
        raise Problem(403, "Pages of other sites may not change anything here.")
