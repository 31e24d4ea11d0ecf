"""Fetching over http from a server on this machine: once, whole, checked, and never by surprise."""

from __future__ import annotations

import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import polygrad
from polygrad import Context, Tensor, fetch
from polygrad.errors import ArgumentError, DownloadError, FormatError

BODY = b"all of it" * 1000
SHA = hashlib.sha256(BODY).hexdigest()


class Server(http.server.BaseHTTPRequestHandler):
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "ftp://127.0.0.1/file")
            self.end_headers()
            return
        if self.path == "/missing":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY) + (self.path == "/cut")))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    Server.asked = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        with Context(POLY_CACHE_DIR=str(tmp_path / "cache")):
            yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def left(tmp_path: Path) -> list[str]:
    return [p.name for p in (tmp_path / "cache" / "downloads").iterdir()]


def test_a_file_is_fetched_once(url: str) -> None:
    first = fetch(f"{url}/data.bin?x=1", insecure=True, sha256=SHA)
    assert first.read_bytes() == BODY
    assert first.name.endswith("-data.bin")
    assert fetch(f"{url}/data.bin?x=1", insecure=True) == first
    assert len(Server.asked) == 1
    fetch(f"{url}/data.bin?x=1", insecure=True, refresh=True)
    assert len(Server.asked) == 2


def test_a_damaged_copy_is_fetched_again(url: str) -> None:
    copy = fetch(f"{url}/a", "own.bin", insecure=True, sha256=SHA)
    copy.write_bytes(b"something else")
    assert fetch(f"{url}/a", "own.bin", insecure=True, sha256=SHA).read_bytes() == BODY


def test_other_bytes_than_promised_are_not_kept(url: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=f"has sha256 {SHA}, not {'0' * 64}"):
        fetch(f"{url}/a", insecure=True, sha256="0" * 64)
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("path", "options", "text"),
    [
        ("/missing", {}, "the server answers 404"),
        ("/a", {"limit": 100}, "is larger than limit=100 bytes"),
        ("/cut", {}, "the connection broke after 9000"),
    ],
)
def test_what_cannot_be_had_is_told_and_leaves_nothing(
    url: str, tmp_path: Path, path: str, options: Any, text: str
) -> None:
    with pytest.raises(DownloadError, match=text):
        fetch(url + path, insecure=True, **options)
    assert left(tmp_path) == []


def test_a_server_that_is_not_there(url: str) -> None:
    with pytest.raises(DownloadError, match="cannot be reached"):
        fetch("http://127.0.0.1:9/x", insecure=True, timeout=5)


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("http://example.org/x", "is not encrypted"),
        ("file:///etc/passwd", "an address begins with https://"),
        ("/etc/passwd", "an address begins with https://"),
        (3, "begins with https://, not 3"),
    ],
)
def test_other_addresses_are_refused(address: Any, text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        fetch(address)


def test_a_redirect_to_another_scheme_is_refused(url: str) -> None:
    with pytest.raises(ArgumentError, match="an address begins with https://"):
        fetch(f"{url}/moved", insecure=True)


@pytest.mark.parametrize("name", ["../x", "a/b", ".hidden", ""])
def test_a_name_stays_in_the_folder(url: str, name: str) -> None:
    with pytest.raises(ArgumentError, match="is no name of a file"):
        fetch(f"{url}/a", name, insecure=True)


def test_a_tensor_of_what_is_there(url: str, device: str) -> None:
    x = Tensor.from_url(f"{url}/a", insecure=True, sha256=SHA)
    assert (x.dtype.name, x.shape) == ("uint8", (len(BODY),))
    assert bytes(x.data()) == BODY
    assert polygrad.fetch is fetch
