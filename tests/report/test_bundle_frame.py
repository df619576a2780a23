"""What lies around the files of a bundle: a changed byte there is seen too."""

import zipfile

from contilab.errors import InputError
from contilab.report.bundle import write_bundle
from contilab.report.bundle_check import verify_bundle
from contilab.report.bundle_frame import frame_faults, new_entry
from contilab.report.write import Rendered


def flipped(data, place, bit):
    """Return *data* with one *bit* of the byte at *place* turned."""
    changed = bytearray(data)
    changed[place] ^= 1 << bit
    return bytes(changed)


def faults_of(folder, data):
    """Return the faults of the bundle that *data* are; a word of its own where they are none."""
    (folder / "b.zip").write_bytes(data)
    try:
        return verify_bundle(folder / "b.zip").faults
    except InputError as error:
        return ("no bundle", str(error))


class TestFrame:
    """Headers, ends of compressed data, and the directory."""

    def test_a_byte_around_the_files_is_named(self, new_study, tmp_path, monkeypatch):
        """No bit of the archive can change unseen: not in a header, at the end of what is compressed, or in the directory."""
        monkeypatch.setattr("contilab.report.bundle.render", lambda *_: Rendered({}, (), None, ""))
        monkeypatch.setattr("contilab.report.bundle_check._recomputed", lambda *_: ({}, ()))
        packed = write_bundle(new_study([("p", "naive", [0], {}, "task")]), "tiny", tmp_path / "a.zip")
        data = packed.path.read_bytes()
        with zipfile.ZipFile(packed.path) as archive:
            entries, end = archive.infolist(), archive.start_dir
        first, last = entries[0], entries[0].header_offset + 30 + len(entries[0].filename) + entries[0].compress_size - 1
        places = [*range(30 + len(first.filename)), last, *range(end, end + 46 + len(first.filename)), *range(-22, 0)]
        unseen = [(place, bit) for place in places for bit in (0, 7) if not faults_of(tmp_path, flipped(data, place, bit))]

        assert faults_of(tmp_path, data) == ()
        assert unseen == []
        assert faults_of(tmp_path, flipped(data, 10, 0)) == (f"{first.filename}: its entry in the archive was changed",)
        assert faults_of(tmp_path, flipped(data, end + 12, 0)) == ("b.zip: the end of the archive was changed",)
        assert len(faults_of(tmp_path, b"#" + data)) == len(entries) + 1
        assert faults_of(tmp_path, data + b"#") == ("b.zip: the end of the archive was changed",)

    def test_a_file_near_the_largest_has_another_frame(self, tmp_path, monkeypatch):
        """It is not taken for changed, though it is small once it is compressed."""
        monkeypatch.setattr("contilab.report.bundle_frame.LARGEST", 1000)
        monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 1000)
        with (tmp_path / "a.zip").open("w+b") as file, zipfile.ZipFile(file, "w") as archive:
            archive.writestr(new_entry("a", is_stored=False), bytes(990))

            assert list(frame_faults(archive, file, 990)) == []
            assert list(frame_faults(archive, file, 900)) == ["a", ""]
