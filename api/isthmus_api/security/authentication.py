"""Authentication by admin key or session, and protection against changes from other sites' pages."""

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
    """Neither a valid key nor a session."""

    def __init__(self, message: str) -> None:
        super().__init__(401, message, UNAUTHENTICATED)


class TooManyFailures(Problem):
    """Too many failed attempts."""

    def __init__(self, seconds: int) -> None:
        super().__init__(429, f"Too many wrong keys from this address; retry in {seconds} s.")
        self.seconds = seconds


class Authenticator:
    """Checks requests against the digest of the admin key and the sessions in the database."""

    def __init__(self, access: Access, admin_digest: str, now_ms: WallClock) -> None:
        self._access = access
        self._admin_digest = admin_digest
        self._now_ms = now_ms
        self._attempts = Attempts()

    async def actor(self, request: web.Request) -> str:
        """The user of a request; raises Problem."""
        header = request.headers.get("Authorization")
        if header is not None:
            return self._by_header(header, remote_of(request))
        token = request.cookies.get(COOKIE)
        if token:
            actor = await self._access.session_actor(digest_of(token), self._now_ms())
            if actor is not None:
                return actor
            raise Unauthenticated("The session has expired; sign in again.")
        raise Unauthenticated("Send the admin key by basic authentication (admin and the key), or sign in.")

    def check_key(self, key: str, remote: str) -> None:
        """Raise Problem unless this is the admin key."""
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
            raise Unauthenticated("Only basic authentication is supported.")
        try:
            user, _, key = b64decode(credentials, validate=True).decode().partition(":")
        except (NotBase64, UnicodeDecodeError) as error:
            raise Unauthenticated("The Authorization header is malformed.") from error
        if user != ADMIN:
            key = ""  # an unknown user costs as much as a wrong key
        self.check_key(key, remote)
        return ADMIN

    async def begin_session(self, actor: str) -> str:
        """Create a session; returns the token for the cookie."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        now = self._now_ms()
        await self._access.add_session(digest_of(token), actor, now, now + SESSION_SECONDS * 1000)
        return token

    async def end_session(self, request: web.Request) -> None:
        """The session of this request, if it has one."""
        token = request.cookies.get(COOKIE)
        if token:
            await self._access.end_session(digest_of(token))


def remote_of(request: web.Request) -> str:
    """The client's address by the socket: proxy headers can be forged."""
    return request.remote or "unknown"


def check_origin(request: web.Request) -> None:
    """Raise Problem for a change from another site's page. Browsers send the origin of a request; other clients do not."""
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    foreign = origin is not None and urlsplit(origin).netloc != request.host
    if foreign or (site is not None and site not in _SAME):
        raise Problem(403, "Changes from other sites' pages are not allowed.")
