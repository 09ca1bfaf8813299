"""Nobody but the user's own page reads the scans."""

import http.client
import json
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import tracoco as tc
from tracoco.viewer.server import ViewServer

if TYPE_CHECKING:
    from viewer.conftest import Folder


@pytest.fixture
def server(filled: "Folder") -> Iterator[ViewServer]:
    shown = tc.view(filled.predictions, port=0)
    assert shown.server is not None
    yield shown.server
    shown.server.stop()


def ask(
    server: ViewServer, path: str, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), content


def test_the_page_and_its_volumes_are_served_behind_the_token(server: ViewServer) -> None:
    root = f"/{server.token}/"
    status, headers, page = ask(server, root)
    assert status == 200
    assert b"connect-src &#39;self&#39;" in page
    assert b'<script type="text/plain"' not in page
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    status, _, about = ask(server, f"{root}case/0")
    assert status == 200
    assert json.loads(about)["shape"] == [7, 6, 5]
    status, _, volume = ask(server, f"{root}case/0/image0", Sec_Fetch_Site="same-origin")
    assert (status, len(volume)) == (200, 7 * 6 * 5)


@pytest.mark.parametrize("rest", ["", "case/0", "case/0/image0"])
def test_without_the_token_nothing_is_told(server: ViewServer, rest: str) -> None:
    for token in ("", "wrong", server.token[:-1], server.token + "x", "é"):
        path = f"/{token}/{rest}".replace("é", "%C3%A9")
        assert ask(server, path)[0] == 403
    assert ask(server, "/favicon.ico")[0] == 403


def test_another_page_or_host_is_refused(server: ViewServer) -> None:
    path = f"/{server.token}/case/0"
    assert ask(server, path)[0] == 200
    assert ask(server, path, Host=f"localhost:{server.port}")[0] == 200
    # A name that an attacker's DNS points to this machine.
    assert ask(server, path, Host=f"evil.example:{server.port}")[0] == 403
    assert ask(server, path, Host="127.0.0.1")[0] == 403
    assert ask(server, path, Origin="https://evil.example")[0] == 403
    assert ask(server, path, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="cors")[0] == 403
    assert ask(server, path, Sec_Fetch_Site="same-site", Sec_Fetch_Mode="no-cors")[0] == 403
    # A link to the page in a notebook.
    assert (
        ask(server, f"/{server.token}/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")[0]
        == 200
    )


def test_only_known_cases_and_volumes_are_served(server: ViewServer) -> None:
    for rest in ("case/3", "case/0/none", "case/0/../../etc", "case/-1", "case/0/image9", "a"):
        assert ask(server, f"/{server.token}/{rest}")[0] == 404
    assert ask(server, f"/{server.token}/case/0", method="POST")[0] == 501


def test_a_scan_that_cannot_be_read_is_an_answer(filled: "Folder") -> None:
    (filled.root / "images" / "right.nii.gz").write_bytes(b"no scan")
    server = tc.view(filled.predictions).serve()
    try:
        status, _, content = ask(server, f"/{server.token}/case/0")
        assert status == 422
        assert "right.nii.gz" in json.loads(content)["error"]
        assert ask(server, f"/{server.token}/case/1")[0] == 200
    finally:
        server.stop()


def test_it_listens_on_this_machine_alone(server: ViewServer, filled: "Folder") -> None:
    assert server.address.startswith(f"http://127.0.0.1:{server.port}/")
    assert len(server.token) >= 32
    with pytest.raises(tc.UserError, match=f"port {server.port} cannot be used"):
        tc.view(filled.predictions, port=server.port)
    with socket.socket() as other, pytest.raises(OSError, match="refused"):
        other.connect(("127.0.0.2", server.port))
