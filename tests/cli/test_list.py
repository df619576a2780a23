"""`contilab list`: every name, and what explains one."""

import re

import pytest


class TestList:
    """contilab list."""

    def test_everything(self, cli):
        """Every name of the catalog has its line, and so have profiles, presets, tables of settings and numbers, metrics."""
        code, out, _ = cli("list")

        assert code == 0
        for name in ("split_digits", "mlp", "sgd", "er", "smoke", "split_digits_class", "memory", "method", "acc", "hsu2018"):
            assert any(line.split()[:1] == [name] for line in out.splitlines())

    def test_one(self, cli):
        """One name is explained with its settings and its paper."""
        _, out, _ = cli("list", "ewc")

        assert out.startswith("ewc (method)")
        assert "method.strength" in out
        assert "paper: " in out

    @pytest.mark.parametrize(
        ("name", "title"),
        [
            ("split_digits_task", "split_digits_task (preset)"),
            ("cpu", "cpu (profile)"),
            ("train", "train (table of settings)"),
            ("acc", "acc (metric, a column of results.csv)"),
            ("vandeven2018", "vandeven2018 (reference table of contilab verify)\n\nvan de Ven & Tolias 2018, "),
            ("optim", "optim (table of settings)\n\n  setting "),
            ("ER", "er (method)"),
            ("Er-Ace", "er_ace (method)"),
            ("optim.LR", "optim.lr (setting)"),
        ],
    )
    def test_other_names(self, cli, name, title):
        """What is no entry of the catalog is explained too, and a name that is written in other letters is found."""
        code, out, _ = cli("list", name)

        assert code == 0
        assert out.startswith(title)

    @pytest.mark.parametrize("name", ["optim.lr", "lr", "train.lr"])
    def test_setting(self, cli, name):
        """A setting is explained for each plugin that has it, by its last part too; of a wrong table that is said."""
        code, out, err = cli("list", name)
        rows = [line.split()[:3] for line in out.splitlines()]

        assert (code, rows[0]) == (0, ["optim.lr", "(setting)"])
        assert [row[1] for row in rows if row[:1] == ["optim.lr"]] == ["(setting)", "adam", "sgd"]
        assert err == ('there is no setting "train.lr"; shown is what ends alike\n' if name == "train.lr" else "")

    def test_setting_of_every_run(self, cli):
        """A setting that no plugin owns has its default, range and meaning; one that ends alike is another setting."""
        total, batch = cli("list", "memory.total")[1], cli("list", "batch")[1]

        assert "  memory.total  500 (built in)  an integer of at least 0  entries in all (M); or set memory.per_class" in total
        assert "train.batch (setting)" in batch
        assert "memory.batch (setting)" in batch

    @pytest.mark.parametrize("words", [(), ("ewc",), ("memory",), ("optim",), ("hsu2018",), ("forgetting",), ("smoke",)])
    def test_narrow_terminal(self, cli, monkeypatch, words):
        """Lines are as long as the terminal is wide; where it has no width, in a file or pipe, they stay whole."""
        whole = cli("list", *words)[1]
        monkeypatch.setenv("COLUMNS", "60")
        narrow = cli("list", *words)[1]

        assert max(map(len, whole.splitlines())) > 60
        assert [line for line in narrow.splitlines() if len(line) > 60] == []
        assert sorted("".join(narrow.split())) == sorted("".join(whole.split()))

    def test_numbers(self, cli):
        """No two numbers of a reference table look alike: settings of their own tell them apart, others name their methods."""
        rows = [re.split(" {2,}", line.strip()) for line in cli("list", "hsu2018")[1].splitlines()]
        numbers = [tuple(row) for row in rows if row[1:2] in (["task"], ["domain"], ["class"])]

        assert len(set(numbers)) == len(numbers) > 27
        for row in (
            ["er", "class", "90.78 ± 0.27", "memory.total = 1100"],
            ["er", "class", "95.59 ± 0.15", "memory.total = 4400"],
            ["benchmark.tasks", "5", "all"],
            ["optim.name", '"sgd"', "gem"],
        ):
            assert row in rows

    @pytest.mark.parametrize(
        ("name", "hint"),
        [
            ("ewcc", 'did you mean "ewc"'),
            ("forgeting", 'did you mean "forgetting"'),
            ("memory.totl", 'did you mean "memory.total"'),
            ("vandeven18", 'did you mean "vandeven2018"'),
            ("xyz123", "contilab list shows"),
        ],
    )
    def test_unknown(self, cli, name, hint):
        """An unknown name gets the nearest one, or where all of them are shown."""
        code, _, err = cli("list", name)

        assert code == 2
        assert hint in err
