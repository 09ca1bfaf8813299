"""What every request must pass: host, origin, token and size, before anything is read of it.

A server on this machine can be reached by every web page that its user has open. So requests that
name another host (DNS rebinding) or come from another page are refused, whatever they ask for.
"""

from collections.abc import Collection
from dataclasses import dataclass
from hmac import compare_digest
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
LARGEST_UPLOAD = 2 * 2**30
"""Bytes of a request: more than any label or scan that a labelling tool sends."""
HANG_UP = {"Connection": "close"}
"""After a refusal: nothing more is read of the request."""
OPEN = frozenset({"/auth/", "/auth/token"})
"""Where a client without the token may ask how to give it."""


@dataclass(frozen=True, slots=True)
class Access:
    """Who may use the server."""

    token: str = ""
    """Needed by every request; none if empty, which only suits this machine alone."""
    origins: frozenset[str] = frozenset()
    """Other web pages that may use it, e.g. `https://viewer.example`."""
    largest: int = LARGEST_UPLOAD

    def accepts(self, given: str) -> bool:
        """Whether a token is the right one; the time that it takes says nothing about it."""
        return bool(self.token) and compare_digest(given.encode(), self.token.encode())


class Guard:
    """The application behind its checks."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        scope = self._without_token(dict(scope), headers)
        refusal = self._refusal(scope, headers)
        if refusal:
            status, detail = refusal
            await JSONResponse({"detail": detail}, status, HANG_UP)(scope, receive, send)
            return
        await self.app(scope, _bounded(receive, self.access.largest), send)

    def _without_token(self, scope: Scope, headers: Headers) -> Scope:
        """The request with a note whether it has the token, which its path may begin with.

        So a tool that knows an address and no token works with the address `http://HOST/TOKEN`.
        """
        kind, _, given = headers.get("authorization", "").partition(" ")
        allowed = not self.access.token or (kind.lower() == "bearer" and self.access.accepts(given))
        first, slash, rest = scope["path"].removeprefix("/").partition("/")
        if self.access.accepts(first):
            path = f"{slash}{rest}" or "/"
            scope = {**scope, "path": path, "raw_path": path.encode()}
            allowed = True
        return {**scope, "state": {**scope.get("state", {}), "allowed": allowed}}

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self.access.token and _name(host) not in LOOPBACK:
            return 421, f"the request is for the host '{host}'; this server answers on 127.0.0.1"
        own = origin is not None and urlsplit(origin).netloc == host and host != ""
        if origin is not None and not own and origin not in self.access.origins:
            return 403, "requests of other web pages are refused; see --allow-origin"
        if origin is None and headers.get("sec-fetch-site", "none") in ("cross-site", "same-site"):
            return 403, "requests of other web pages are refused; see --allow-origin"
        if not scope["state"]["allowed"] and scope["path"] not in OPEN:
            return 401, "the token is missing or wrong; use the address that the server printed"
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self.access.largest:
            return 413, f"the request has {length} bytes; at most {self.access.largest} are taken"
        return None


def _name(host: str) -> str:
    """The host without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _bounded(receive: Receive, largest: int) -> Receive:
    """A request's body, which ends with an error where it is larger than it said or may be."""
    seen = 0

    async def bounded() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > largest:
            raise HTTPException(413, f"the request is larger than {largest} bytes")
        return message

    return bounded


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can be reached from this machine alone."""
    return host in LOOPBACK


def checked_origins(origins: Collection[str]) -> frozenset[str]:
    """Origins as browsers send them: without a path or a slash at the end."""
    return frozenset(origin.rstrip("/") for origin in origins)
