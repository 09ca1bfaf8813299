"""A server for one browser on this machine: bound to 127.0.0.1, behind a random token."""

import json
import re
import secrets
from collections import OrderedDict
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread

from tracoco import __version__
from tracoco.errors import UserError
from tracoco.viewer.cases import ViewSet
from tracoco.viewer.page import served
from tracoco.viewer.volumes import PackedCase, pack_case

HOST = "127.0.0.1"
KEPT_CASES = 2
"""Cases that stay in memory, so that their volumes are read from the files once."""
CASE = re.compile(r"/case/(\d{1,9})(?:/([a-z]+\d*))?")
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the address holds the token
    "X-Content-Type-Options": "nosniff",
}


class ViewServer:
    """Serves a set of cases until it is stopped."""

    def __init__(self, view: ViewSet, port: int = 0) -> None:
        """Begin to serve; with port 0 the system chooses a free one."""
        self.view, self.token = view, secrets.token_urlsafe(24)
        self._page = served(view).encode()
        self._kept: OrderedDict[int, PackedCase] = OrderedDict()
        self._reading = Lock()
        try:
            self._http = ThreadingHTTPServer((HOST, port), self._handler())
        except OSError as error:
            raise UserError(
                f"port {port} cannot be used ({error.strerror}); choose another --port"
            ) from None
        self._http.daemon_threads = True
        self._thread = Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._http.server_port

    @property
    def address(self) -> str:
        """What to open in a browser; whoever knows it can see the scans."""
        return f"http://{HOST}:{self.port}/{self.token}/"

    def wait(self) -> None:
        """Serve until the process is interrupted."""
        self._thread.join()

    def stop(self) -> None:
        """End the server."""
        self._http.shutdown()
        self._http.server_close()

    def answer(self, path: str, headers: Message) -> tuple[HTTPStatus, str, bytes]:
        """Status, content type and content for a request.

        A page of another site may send requests here through the user's browser. It does not know
        the token, and its requests name another host or say that they come from elsewhere.
        """
        ours = {f"{HOST}:{self.port}", f"localhost:{self.port}"}
        inside = headers.get("Sec-Fetch-Site", "none") in {"none", "same-origin"}
        elsewhere = (
            not inside and headers.get("Sec-Fetch-Mode") != "navigate"
        )  # a link may lead here
        origin = headers.get("Origin")
        foreign = origin is not None and origin.removeprefix("http://") not in ours
        token, _, rest = path.removeprefix("/").partition("/")
        known = secrets.compare_digest(token.encode(), self.token.encode())
        if headers.get("Host") not in ours or elsewhere or foreign or not known:
            return HTTPStatus.FORBIDDEN, "text/plain", b"forbidden\n"
        if not rest:
            return HTTPStatus.OK, "text/html; charset=utf-8", self._page
        match = CASE.fullmatch(f"/{rest}")
        if match is None or int(match[1]) >= len(self.view.cases):
            return HTTPStatus.NOT_FOUND, "text/plain", b"not found\n"
        return self._case(int(match[1]), match[2])

    def _case(self, index: int, volume: str | None) -> tuple[HTTPStatus, str, bytes]:
        try:
            packed = self._packed(index)
        except (UserError, OSError) as error:
            content = json.dumps({"error": str(error)}).encode()
            return HTTPStatus.UNPROCESSABLE_ENTITY, "application/json", content
        if volume is None:
            return HTTPStatus.OK, "application/json", json.dumps(packed.describe()).encode()
        if volume not in packed.volumes:
            return HTTPStatus.NOT_FOUND, "text/plain", b"not found\n"
        return HTTPStatus.OK, "application/octet-stream", packed.volumes[volume].content()

    def _packed(self, index: int) -> PackedCase:
        with self._reading:
            if index not in self._kept:
                self._kept[index] = pack_case(self.view.cases[index], self.view)
            self._kept.move_to_end(index)
            while len(self._kept) > KEPT_CASES:
                self._kept.popitem(last=False)
            return self._kept[index]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            server_version, sys_version = f"tracoco/{__version__}", ""
            protocol_version = "HTTP/1.1"
            timeout = 60

            def do_GET(self) -> None:
                """Answer a request for the page, a case or a volume."""
                status, kind, content = server.answer(self.path, self.headers)
                self.send_response(status)
                for name, value in HEADERS.items():
                    self.send_header(name, value)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - of the base class
                """Print nothing: the address of a request holds the token."""

        return Handler
