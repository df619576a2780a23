"""Claims about names on disk: they are read by other versions, so none may change."""

from pathlib import Path

from contilab.store.layout import Layout, addresses, numbers, short, versions

A, B = "a" * 64, "b" * 64
L = Layout(Path("/s"))

CHECKPOINT = ("/MANIFEST.json", "/state", "/weights")
GOLDEN = {
    "format.json": L.format,
    "studies": L.studies,
    "studies/name": L.plans("name"),
    "studies/name/2.json": L.plan("name", 2),
    f"runs/{A}.json": L.run(A),
    f"groups/{B}.json": L.group(B),
    f"claims/{B}": L.claims(B),
    f"claims/{B}/3.json": L.claim(B, 3),
    f"claims/{B}/3.end": L.end(B, 3),
    f"work/{B}/3": L.work(B, 3),
    f"work/{B}/3/beat": L.beat(B, 3),
    f"work/{B}/3/out": L.out(B, 3),
    f"work/{B}/3/late": L.late(B, 3),
    f"results/{A}": L.result(A),
    f"work/{B}/3/log.jsonl": L.log(B, 3),
    f"work/{B}/3/ckpt-0": L.checkpoint(B, 3, 0),
    f"quarantine/{B}.3.json": L.quarantine(B, 3),
    f"cancel/{B}.0.json": L.cancel(B, 0),
    f"damaged/{A}-0123abcd": L.aside(A, "0123abcd"),
    "runners/uuid.reserve": L.reserve("uuid"),
    f"mismatch/{A}-0123abcd.json": L.mismatch(A, "0123abcd"),
    "runners/uuid.json": L.runner("uuid"),
    f"locks/{B}.lock": L.lock(B),
    f"locks/{B}.3.alive": L.alive(B, 3),
    f"derived/{A}/bwt.2.json": L.derived_metric(A, "bwt", 2),
    "reports/name": L.report("name"),
}


class TestLayout:
    """One module knows the names."""

    def test_golden(self):
        """Every path is where the protocol says."""
        assert {name: str(path) for name, path in GOLDEN.items()} == {name: f"/s/{name}" for name in GOLDEN}

    def test_name_length(self):
        """Every name is at most 80 bytes, study names, numbers of nine digits and suffixes included."""
        longest = (*GOLDEN.values(), L.plan("n" * 40, 999_999_999), L.alive(A, 999_999_999), L.quarantine(A, 999_999_999))

        assert max(len(part.encode()) for path in longest for part in path.parts) <= 80

    def test_numbers(self):
        """Only plain numbers with the suffix count: a file of people or of a later version is no generation."""
        names = ["10.json", "2.json", "1.end", "x.json", "0.json", "01.json", "-1.json", "٣.json"]

        assert numbers(names, ".json") == [2, 10]

    def test_addresses(self):
        """Only full SHA-256 in hex counts."""
        assert addresses([f"{A}.json", f"{A[:12]}.json", "lost+found", f"{B}.tmp"], ".json") == [A]

    def test_versions(self):
        """Of each metric the highest version counts; other names are none."""
        names = ["bwt.9.json", "bwt.10.json", "bwt.01.json", "acc.1.json", "acc.json", "ACC.2.json", "acc.1.json.txt"]

        assert versions(names) == {"bwt": 10, "acc": 1}

    def test_messages_are_short(self):
        """Messages show 12 digits."""
        assert short(A) == "a" * 12

    def test_tree_of_a_finished_store(self, plan, start_worker):
        """A drained store holds exactly these names."""
        planned = plan(members=1)
        worker = start_worker()
        worker.wait_until_ready()
        worker.send(planned.root)
        worker.answer()
        rid, gid = planned.rids[0], planned.gids[0]

        found = {
            str(path.relative_to(planned.root)).replace(rid, "RID").replace(gid, "GID") for path in planned.root.rglob("*")
        }

        assert found == {
            *("studies", "runs", "groups", "claims", "work", "results", "mismatch", "runners", "locks", "cache", "reports"),
            *("quarantine", "cancel", "damaged", *(f"work/GID/1/ckpt-1{name}" for name in ("", *CHECKPOINT))),
            *("format.json", "studies/study", "studies/study/1.json", "runs/RID.json", "groups/GID.json"),
            *("claims/GID", "claims/GID/1.json", "claims/GID/1.end", "locks/GID.lock", "locks/GID.1.alive"),
            *("work/GID", "work/GID/1", "work/GID/1/beat", "work/GID/1/out"),
            *("results/RID", "results/RID/MANIFEST.json", "results/RID/numbers", "results/RID/attempt"),
        }
