"""Downloads, from a real server on this machine: right content only, whole or not at all, and a clear word when offline."""

import hashlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from contilab.data import download
from contilab.data.download import Remote, fetch, sha256_is
from contilab.errors import DataError

CONTENT = bytes(range(256)) * 400
ANSWERS = {
    "/good/file": CONTENT,
    "/dropped/file": CONTENT,
    "/other/file": CONTENT[:-1] + b"\x01",
    "/long/file": CONTENT + bytes(10_000),
    "/page/file": b"<html>log in to this network first</html>",
}
HINT = "contilab data import x DIR"


class Mirror(BaseHTTPRequestHandler):
    """Answers from `ANSWERS`, and from a byte on if asked; /dropped/ loses the connection after a third of what is left."""

    asked: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        """Send one answer."""
        body = ANSWERS.get(self.path, b"")
        self.asked.append((self.path, self.headers["Range"]))
        start = int((self.headers["Range"] or "bytes=0-")[6:-1])
        if body and start >= len(body):
            self.send_error(416)
            return
        self.send_response((206 if start else 200) if body else 404)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        rest = body[start:]
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest[: max(1, len(rest) // 3)] if self.path.startswith("/dropped") else rest)

    def log_message(self, *args: object) -> None:
        """Stay silent."""


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the address of a mirror."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    Mirror.asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def remote(*urls: str) -> Remote:
    """Return the file as it is known."""
    return Remote("file", urls, len(CONTENT) + 100, sha256_is(hashlib.sha256(CONTENT).hexdigest()))


def part_of(folder: Path, url: str) -> Path:
    """Return where a download from *url* is kept until it is whole."""
    return folder / f".part-{hashlib.sha256(url.encode()).hexdigest()[:12]}-file"


class TestFetch:
    """Downloading one file."""

    def test_puts_the_file_into_the_folder(self, mirror: str, tmp_path: Path) -> None:
        """The file arrives as it was sent, and nothing else is left in the folder; progress ends at its size."""
        told: list[tuple[str, int, int | None]] = []

        path = fetch(remote(f"{mirror}/good/file"), tmp_path / "cache", hint=HINT, progress=lambda *now: told.append(now))

        assert path.read_bytes() == CONTENT
        assert list((tmp_path / "cache").iterdir()) == [path]
        assert told[-1] == ("file", len(CONTENT), len(CONTENT))

    def test_takes_the_next_mirror(self, mirror: str, tmp_path: Path) -> None:
        """A mirror that fails or sends something else is passed over."""
        places = ("none", "other", "long", "page", "good")

        path = fetch(remote(*(f"{mirror}/{place}/file" for place in places)), tmp_path, hint=HINT)

        assert path.read_bytes() == CONTENT
        assert [url for url, _ in Mirror.asked] == [f"/{place}/file" for place in places]

    @pytest.mark.parametrize(
        ("place", "reason"),
        [
            ("none", "404"),
            ("other", "sent 102400 bytes with SHA-256"),
            ("long", "sent more than expected: at most 102500 bytes"),
            ("page", "sent 41 bytes with SHA-256"),
        ],
    )
    def test_wrong_content_never_stays(self, mirror: str, tmp_path: Path, place: str, reason: str) -> None:
        """What is not the published file is refused with address and reason, and not a byte of it stays in the cache."""
        with pytest.raises(DataError) as caught:
            fetch(remote(f"{mirror}/{place}/file"), tmp_path, hint=HINT)

        assert f"{mirror}/{place}/file" in str(caught.value)
        assert reason in str(caught.value)
        assert caught.value.faults[0].hint == HINT
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) == 0

    def test_goes_on_where_the_connection_broke(self, mirror: str, tmp_path: Path) -> None:
        """What arrived is asked for only once, by the same call and by a later one, and the whole is right in the end."""
        url = f"{mirror}/dropped/file"
        with pytest.raises(DataError, match="the answer ended after"):
            fetch(remote(url), tmp_path, hint=HINT)
        before = part_of(tmp_path, url).stat().st_size
        asked = [int((header or "bytes=0-")[6:-1]) for _, header in Mirror.asked]

        part_of(tmp_path, url).rename(part_of(tmp_path, f"{mirror}/good/file"))
        path = fetch(remote(f"{mirror}/good/file"), tmp_path, hint=HINT)

        assert path.read_bytes() == CONTENT
        assert asked == sorted(set(asked))
        assert len(asked) == download.TRIES
        assert Mirror.asked[-1] == ("/good/file", f"bytes={before}-")

    @pytest.mark.parametrize("begun", [b"something else", CONTENT, CONTENT + b"more"])
    def test_what_lay_there_is_not_trusted(self, mirror: str, tmp_path: Path, begun: bytes) -> None:
        """A beginning of another file, a whole one or a longer one end in the right file."""
        url = f"{mirror}/good/file"
        part_of(tmp_path, url).write_bytes(begun)

        assert fetch(remote(url), tmp_path, hint=HINT).read_bytes() == CONTENT

    def test_uses_the_proxy_of_the_environment(self, mirror: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """With `http_proxy` the proxy is asked, for the full address."""
        monkeypatch.setenv("http_proxy", mirror)
        monkeypatch.setattr("urllib.request._opener", None)  # made once per process, from its environment
        ANSWERS["http://data.invalid/good/file"] = CONTENT

        path = fetch(remote("http://data.invalid/good/file"), tmp_path, hint=HINT)

        assert path.read_bytes() == CONTENT
        assert Mirror.asked == [("http://data.invalid/good/file", None)]

    def test_offline_names_the_way_out(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a network the message says where was looked and what failed, and gives the hint; nothing is created."""
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            address = f"http://127.0.0.1:{closed.getsockname()[1]}/file"

        with pytest.raises(DataError) as caught:
            fetch(remote(address), tmp_path / "cache", hint=HINT, searched=[Path("/data")])

        assert "not found in /data, nor could it be downloaded from" in str(caught.value)
        assert "Connection refused" in str(caught.value)
        assert caught.value.faults[0].hint == HINT
        assert not (tmp_path / "cache").exists()

    def test_silent_mirror_times_out(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A mirror that accepts and never answers is given up after the time limit."""
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        monkeypatch.setattr(download, "TIMEOUT_SECONDS", 0.1)
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()

            with pytest.raises(DataError, match="timed out"):
                fetch(remote(f"http://127.0.0.1:{silent.getsockname()[1]}/file"), tmp_path, hint=HINT)

    def test_folder_that_cannot_be_written_is_named(self, mirror: str, tmp_path: Path) -> None:
        """If the cache cannot be written, the message names it and CONTILAB_CACHE."""
        (tmp_path / "file").write_bytes(b"")

        with pytest.raises(DataError) as caught:
            fetch(remote(f"{mirror}/good/file"), tmp_path / "file" / "cache", hint=HINT)

        assert str(tmp_path / "file") in str(caught.value)
        assert "cannot be written" in str(caught.value)
        assert "CONTILAB_CACHE" in caught.value.faults[0].hint
