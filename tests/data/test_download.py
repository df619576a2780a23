"""Downloads, from a real server on this machine: right content only, whole or not at all, and a clear word when offline."""

import gzip
import hashlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from contilab.data import download
from contilab.data.download import fetch
from contilab.data.idx_file import KnownFile
from contilab.errors import DataError

CONTENT = bytes([0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 0])
PACKED = gzip.compress(CONTENT)
KNOWN = KnownFile("labels", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
ANSWERS = {
    "/good/labels.gz": PACKED,
    "/cut/labels.gz": PACKED[:-5],
    "/other/labels.gz": gzip.compress(CONTENT[:-1] + b"\x01"),
    "/bomb/labels.gz": gzip.compress(bytes(10_000_000)),
    "/page/labels.gz": b"<html>log in to this network first</html>",
}


class Mirror(BaseHTTPRequestHandler):
    """Answers from `ANSWERS`, promising more than it sends for /cut/."""

    def do_GET(self) -> None:
        """Send one answer."""
        body = ANSWERS.get(self.path)
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(PACKED if self.path.startswith("/cut") else body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *args: object) -> None:
        """Stay silent."""


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the address of a mirror."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


class TestFetch:
    """Downloading one file."""

    def test_puts_the_file_into_the_folder(self, mirror: str, tmp_path: Path) -> None:
        """The file arrives as it was sent, and nothing else is left in the folder."""
        path = fetch(KNOWN, [f"{mirror}/good/"], tmp_path / "cache")

        assert path.read_bytes() == PACKED
        assert list((tmp_path / "cache").iterdir()) == [path]

    def test_takes_the_next_mirror(self, mirror: str, tmp_path: Path) -> None:
        """A mirror that fails or sends something else is passed over."""
        places = ("none", "cut", "other", "bomb", "page", "good")

        path = fetch(KNOWN, [f"{mirror}/{place}/" for place in places], tmp_path)

        assert path.read_bytes() == PACKED

    @pytest.mark.parametrize(
        ("place", "reason"),
        [
            ("none", "404"),
            ("cut", "the gzip data end early"),
            ("other", "sent 11 bytes with SHA-256"),
            ("bomb", "unpack to more than 11 bytes"),
            ("page", "the gzip data are damaged"),
        ],
    )
    def test_wrong_content_never_stays(self, mirror: str, tmp_path: Path, place: str, reason: str) -> None:
        """What is not the published file is refused with address and reason, and no part of it stays in the cache."""
        with pytest.raises(DataError) as caught:
            fetch(KNOWN, [f"{mirror}/{place}/"], tmp_path / "cache")

        assert f"{mirror}/{place}/labels.gz" in str(caught.value)
        assert reason in str(caught.value)
        assert not (tmp_path / "cache").exists()

    def test_offline_names_the_variable(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a network the message says so and names CONTILAB_DATA as the way out."""
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            address = f"http://127.0.0.1:{closed.getsockname()[1]}/"

        with pytest.raises(DataError) as caught:
            fetch(KNOWN, [address], tmp_path / "cache", searched=[Path("/data")])

        assert "not found in /data, nor could it be downloaded from" in str(caught.value)
        assert "Connection refused" in str(caught.value)
        assert "CONTILAB_DATA" in caught.value.faults[0].hint

    def test_silent_mirror_times_out(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A mirror that accepts and never answers is given up after the time limit."""
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        monkeypatch.setattr(download, "TIMEOUT_SECONDS", 0.1)
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()

            with pytest.raises(DataError, match="timed out"):
                fetch(KNOWN, [f"http://127.0.0.1:{silent.getsockname()[1]}/"], tmp_path)

    def test_folder_that_cannot_be_written_is_named(self, mirror: str, tmp_path: Path) -> None:
        """If the cache cannot be written, the message names it and CONTILAB_CACHE."""
        (tmp_path / "file").write_bytes(b"")

        with pytest.raises(DataError) as caught:
            fetch(KNOWN, [f"{mirror}/good/"], tmp_path / "file" / "cache")

        assert "cannot be written" in str(caught.value)
        assert "CONTILAB_CACHE" in caught.value.faults[0].hint
