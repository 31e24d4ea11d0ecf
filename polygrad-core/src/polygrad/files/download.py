"""Fetching a file by its address, once: the copy in the cache folder serves from then on.

Floor: files. Nothing here runs unless `fetch` is called: no other part of the library opens a
connection. Only https is spoken, along redirects too, unless the caller allows http. What comes is
bounded in time and size, may be held against its sha256, and takes its place in the cache only when
it is whole.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import IO, Any

from .. import settings
from ..errors import ArgumentError, DownloadError, FileDenied, FormatError, public, shown
from . import atomic

_CHUNK = 1 << 20
_WAIT = 86400


@public
def fetch(
    url: str,
    name: str | None = None,
    *,
    sha256: str | None = None,
    limit: int = 4 << 30,
    timeout: float = 30.0,
    insecure: bool = False,
    refresh: bool = False,
) -> Path:
    """The path of a local copy of the file at an https address, downloaded if there is none yet.

    `name` is what the copy is called in the cache folder, `sha256` what it must have, `limit` how
    many bytes it may have, `timeout` the seconds that an answer may take. `insecure` allows http,
    `refresh` downloads again. Raises DownloadError where nothing comes, FormatError where something
    else comes than `sha256` says.

    >>> fetch("https://example.org/weights.bin").stat().st_size  # doctest: +SKIP
    """
    _check_address(url, insecure)
    if not 0 < timeout <= _WAIT:
        raise ArgumentError(f"fetch: timeout is a number of seconds up to {_WAIT}, not {timeout}.")
    place = _place(url, name)
    if refresh or not place.is_file():
        _download(url, place, sha256, limit, timeout, insecure)
    elif sha256 is not None and _digest(place) != sha256.lower():
        place.unlink()
        _download(url, place, sha256, limit, timeout, insecure)
    return place


def _check_address(url: Any, insecure: bool) -> None:
    scheme = url.partition("://")[0].lower() if isinstance(url, str) and "://" in url else ""
    if scheme == "http" and not insecure:
        raise ArgumentError(
            f"fetch: {shown(url)} is not encrypted: anyone on the way can change the file. Take"
            " https, or allow it with insecure=True."
        )
    if scheme not in ("http", "https"):
        raise ArgumentError(f"fetch: an address begins with https://, not {shown(url)}.")


def _place(url: str, name: str | None) -> Path:
    """Where the copy is. The address is part of its name, so two files do not meet."""
    if name is None:
        last = re.sub(r"[^A-Za-z0-9._-]", "_", url.split("?")[0].rstrip("/").rpartition("/")[2])
        name = f"{hashlib.sha256(url.encode()).hexdigest()[:16]}-{last[-80:]}"
    if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]*", name):
        raise ArgumentError(f"fetch: {shown(name)} is no name of a file in the cache folder.")
    folder = Path(settings.cache_folder()) / "downloads"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise FileDenied(
            f"{folder}: cannot be made: {error.strerror}. POLY_CACHE_DIR names another folder."
        ) from None
    return folder / name


def _digest(path: Path) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()


def _download(
    url: str, place: Path, sha256: str | None, limit: int, timeout: float, insecure: bool
) -> None:
    with _opened(url, timeout, insecure) as answer, atomic(place) as file:
        found = _copied(url, answer, file, limit)
        if sha256 is not None and found != sha256.lower():
            raise FormatError(f"{url}: has sha256 {found}, not {sha256.lower()}.")


def _copied(url: str, answer: Any, file: IO[bytes], limit: int) -> str:
    """Copy what comes, at most `limit` bytes and all that was announced; gives its sha256."""
    total, found = 0, hashlib.sha256()
    try:
        while chunk := answer.read(_CHUNK):
            total += len(chunk)
            if total > limit:
                raise DownloadError(f"{url}: is larger than limit={limit} bytes.")
            found.update(chunk)
            file.write(chunk)
    except (OSError, ValueError) as error:
        if isinstance(error, DownloadError):
            raise
        raise DownloadError(f"{url}: the connection broke after {total} bytes: {error}.") from None
    announced = answer.headers.get("Content-Length")
    if announced is not None and announced.isdigit() and int(announced) != total:
        raise DownloadError(f"{url}: the connection broke after {total} of {announced} bytes.")
    return found.hexdigest()


def _opened(url: str, timeout: float, insecure: bool) -> Any:
    import http.client
    from urllib.error import HTTPError, URLError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class Redirects(HTTPRedirectHandler):
        def redirect_request(self, *given: Any) -> Any:
            _check_address(given[-1], insecure)
            return super().redirect_request(*given)

    try:
        request = Request(url, headers={"User-Agent": "polygrad"})
        return build_opener(Redirects).open(request, timeout=float(timeout))
    except HTTPError as error:
        error.close()
        raise DownloadError(f"{url}: the server answers {error.code} {error.reason}.") from None
    except URLError as error:
        raise DownloadError(f"{url}: cannot be reached: {error.reason}.") from None
    except (OSError, http.client.HTTPException) as error:
        raise DownloadError(f"{url}: cannot be reached: {error or type(error).__name__}.") from None
