from pathlib import Path

import pytest

from contilab.errors import Fault, ManifestError
from contilab.manifest.read import decode, parse, read_text

GOOD = 'name = "a"\nprofile = "cpu"\n'


def _fault_of(text: str) -> Fault:
    with pytest.raises(ManifestError) as raised:
        parse(text, "m.toml")
    (fault,) = raised.value.faults
    return fault


def _fault_of_bytes(data: bytes) -> Fault:
    with pytest.raises(ManifestError) as raised:
        decode(data, "m.toml")
    (fault,) = raised.value.faults
    return fault


class TestEncodings:
    """From bytes to text."""

    @pytest.mark.parametrize(
        "data",
        [GOOD.encode(), b"\xef\xbb\xbf" + GOOD.encode(), GOOD.replace("\n", "\r\n").encode()],
        ids=["plain", "byte order mark", "CRLF"],
    )
    def test_harmless_forms(self, data: bytes, tmp_path: Path) -> None:
        """A byte order mark and CRLF change nothing."""
        path = tmp_path / "m.toml"
        path.write_bytes(data)

        assert read_text(path) == GOOD

    def test_lone_carriage_return(self) -> None:
        """A carriage return without a line feed is refused with its line."""
        fault = _fault_of_bytes(b'name = "a"\nprofile = "cpu"\rseed = 1\n')

        assert (fault.place, fault.problem) == ("m.toml, line 2", "a carriage return without a line feed")

    @pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
    def test_utf_16(self, codec: str) -> None:
        """Text of two bytes per letter, with or without its mark, is named as what it is."""
        assert _fault_of_bytes(GOOD.encode(codec)) == Fault("m.toml", "the text is UTF-16, not UTF-8", "save the file as UTF-8")

    def test_invalid_utf_8(self) -> None:
        """A byte that is not UTF-8 is shown with its line."""
        fault = _fault_of_bytes(b'name = "a"\nx = "gr\xf6sse"\n')

        assert (fault.place, fault.problem) == ("m.toml, line 2", "byte 0xf6 is not UTF-8")

    @pytest.mark.parametrize("name", ["missing.toml", "."])
    def test_unreadable_file(self, name: str, tmp_path: Path) -> None:
        """A file that is not there, or is a directory, is one sentence with its path and exit code 2."""
        with pytest.raises(ManifestError) as raised:
            read_text(tmp_path / name)

        assert raised.value.faults[0].place == str(tmp_path / name)
        assert raised.value.exit_code == 2


class TestSyntax:
    """From text to a document."""

    @pytest.mark.parametrize("text", ["x = " + "[" * 3000 + "]" * 3000, "[a" + ".b" * 3000 + "]"], ids=["lists", "tables"])
    def test_deep_nesting(self, text: str) -> None:
        """3000 nested brackets or tables are one sentence, not a recursion error."""
        assert _fault_of(text).problem == "values are nested too deeply"

    def test_long_integer(self) -> None:
        """An integer of 5000 digits is refused with its line."""
        fault = _fault_of(f'name = "a"\nx = {"7" * 5000}\n')

        assert (fault.place, fault.problem) == ("m.toml, line 2", "an integer has too many digits")

    @pytest.mark.parametrize(
        ("text", "place", "line", "way_out"),
        [
            ("a = 1\na = 2\nb = 3\n", "line 2", "a = 2", "only once"),
            ("[t]\n[t]\nb = 3\n", "line 2", "[t]", "only once"),
            ("a = 1\na.b = 2\nc = 3\n", "line 2", "a.b = 2", "only once"),
            ("a = {b = 1}\na.c = 2\nd = 3\n", "line 2", "a.c = 2", ""),
            ("a = 1\ngröße = 1\n", "line 2", "größe = 1", "needs quotes"),
            ("a = .5\n", "line 1", "a = .5", "a digit before its point"),
            ("a = 01\n", "line 1", "a = 01", "without leading zeros"),
            ('a = "C:\\data"\n', "line 1", 'a = "C:\\data"', "each backslash twice"),
            ("a = 1\n= 2\n", "line 2", "= 2", ""),
            ('a = 1\nb = "', "end of file, line 2", 'b = "', ""),
            ("d = 2024-13-45\n", "line 1", "d = 2024-13-45", ""),
        ],
        ids=[
            "duplicate key",
            "duplicate table",
            "dotted key against a value",
            "inline table extended",
            "bare key with umlaut",
            "number without digit before its point",
            "leading zero",
            "backslash",
            "no key",
            "end of file",
            "no such date",
        ],
    )
    def test_reasons_of_the_parser(self, text: str, place: str, line: str, way_out: str) -> None:
        """The parser's reason comes with file, line and the line's text, and with what usually helps."""
        fault = _fault_of(text)

        assert fault.place == f"m.toml, {place}"
        assert fault.problem.endswith(f" in `{line}`")  # the reason before it is worded by each Python
        assert way_out in fault.hint
        assert fault.hint

    def test_every_reason_has_a_way_out(self) -> None:
        """A reason without an own hint still says what is asked for."""
        assert _fault_of("[a\n").hint == "the file must be valid TOML"
