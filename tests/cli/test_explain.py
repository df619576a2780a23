"""Entries of the menu in words."""

import sys
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Gt, Lt

from contilab.catalog import STRATEGIES, entry
from contilab.cli.explain import explain, explain_metric, explain_preset, explain_profile, explain_table
from contilab.cli.list import list_
from contilab.metrics.table import metric
from contilab.spec.entry import Entry
from contilab.spec.fields import PER_MEMBER, Doc

PAPERS = {
    "agem": "Chaudhry et al. 2019, Efficient",
    "der": "Buzzega et al. 2020, Dark",
    "derpp": "Buzzega et al. 2020, Dark",
    "er": "Chaudhry et al. 2019, On tiny",
    "er_ace": "Caccia et al. 2022, ",
    "ewc": "Kirkpatrick et al. 2017, ",
    "gdumb": "Prabhu et al. 2020, ",
    "gem": "Lopez-Paz & Ranzato 2017, ",
    "icarl": "Rebuffi et al. 2017, ",
    "lwf": "Li & Hoiem 2016, ",
    "mas": "Aljundi et al. 2018, ",
    "si": "Zenke, Poole & Ganguli 2017, ",
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of every kind."""

    strength: Annotated[float, Gt(0), Lt(5), Doc("how much"), PER_MEMBER]
    layers: Annotated[tuple[int, ...], Doc("widths")] = (4, 4)
    kind: Literal["a", "b"] = "a"
    limit: int | None = None


class TestExplain:
    """One entry as text."""

    def test_everything_is_there(self):
        """Summary, every setting with default, range and meaning, and the paper."""
        entry = Entry(
            make=print, numerics="x/1", summary="Does x. And\n  more.", settings=Settings, paper="X 2020", uses_memory=True
        )
        text = explain("method", "x", entry)

        assert text.startswith("x (method)\n\nDoes x. And more.")
        for part in (
            "method.strength  (needed)  a number above 0 to below 5",
            "how much; may differ",
            "a list, each item an integer",
            "[4, 4]",
            "paper: X 2020",
            "contilab list memory",
        ):
            assert part in text

    def test_size_of_a_model(self):
        """A model says how many parameters and operations it has, per kind of input."""
        lines = [line.split() for line in explain("model", "resnet18r", entry("model", "resnet18r")).splitlines()]

        assert ["3", "x", "32", "x", "32", "10", "1,094,750", "109.244"] in lines

    def test_no_settings(self):
        """An entry without settings shows no table."""
        assert explain("method", "x", Entry(make=print, numerics="x/1", summary="Does x.")) == "x (method)\n\nDoes x."

    def test_preset(self):
        """A preset is shown under each profile, so that what a profile changes is seen."""
        lines = explain_preset("split_fmnist_class").splitlines()

        assert ["setting", "cpu", "gpu", "smoke"] in [line.split() for line in lines]
        assert ["optim.lr", "0.1", "0.1", "0.1"] in [line.split() for line in lines]
        assert ["benchmark.train_per_task", "500"] in [line.split() for line in lines]

    def test_profile(self):
        """A profile says what it is for, and its defaults."""
        text = explain_profile("gpu")

        assert text.startswith("gpu (profile)\n\nFor a GPU")
        assert ["engine.max_members", "32"] in [line.split() for line in text.splitlines()]

    def test_table(self):
        """A table of settings has default, range and meaning of each."""
        text = explain_table("train")

        assert "train.batch 64 an integer of at least 1 samples per step" in " ".join(text.split())
        assert "memory." not in text

    def test_table_shows_what_is_built_in(self):
        """Of two settings that exclude each other one has a default, which no table holds: shown are it and its rival."""
        text = " ".join(f"{explain_table('memory')} {explain_table('train')}".split())

        assert "memory.total 500 (built in) an integer of at least 0 entries in all (M); or set memory.per_class" in text
        assert "memory.per_class (unset) an integer of at least 0 entries per class; or set memory.total" in text
        assert "train.epochs 1 (built in)" in text

    def test_every_method_names_its_paper(self):
        """The page of a method ends with its paper; plain training has none."""
        pages = {name: explain("method", name, entry("method", name)).split("\n\n")[-1] for name in STRATEGIES}
        named = {name: page.removeprefix("paper: ") for name, page in pages.items() if page.startswith("paper: ")}

        assert named.keys() == PAPERS.keys()
        assert {name: text for name, text in named.items() if not text.startswith(PAPERS[name])} == {}

    def test_metric(self):
        """A metric has meaning, rule, unit, direction and source."""
        parts = explain_metric(metric("forgetting")).split("\n\n")

        assert "R[" in parts[2]
        assert parts[3:] == ["unit: difference; lower is better", "paper: Chaudhry 2018"]
        assert explain_metric(metric("members")).endswith("unit: runs")

    def test_what_a_method_accepts_of_memory_stands_in_it(self):
        """Size, fixed policy, time of insertion, and the scenarios that know the method; not what it has no use for."""
        text = explain("method", "icarl", entry("method", "icarl"))

        assert "it uses memory, by default memory.total = 500, and memory.batch does not apply, see contilab list" in text
        assert '  memory.policy  "herding"   "herding"' in text
        assert '  memory.insert  "task_end"  "task_end"' in text
        assert 'scenarios: "task" or "class"' in text

    def test_choices_with_fewer_scenarios_stand_in_it(self):
        """A head that is not defined everywhere is named with where it is."""
        text = explain("method", "er", entry("method", "er"))

        assert 'by default memory.total = 500 and memory.batch = "train" (as many as train.batch), see contilab list' in text
        assert 'scenarios of head = "ncm": "task" or "class"' in text
        assert "scenarios:" not in text


OWN = '''
from math import prod

from torch import nn


def net(input_shape: tuple[int, ...], rows: int, *, width: int = 2) -> nn.Module:
    """A net."""
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(input_shape), width), nn.Linear(width, rows))
'''


class TestOwnModel:
    """`contilab list module:function`."""

    def test_is_explained(self, tmp_path, monkeypatch, capsys):
        """A model of a user's own in the current folder is explained as one of the menu: summary, settings and size."""
        (tmp_path / "listed.py").write_text(OWN)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", list(sys.path))
        list_("listed:net")
        text = capsys.readouterr().out

        assert text.startswith("listed:net (model)\n\nA net.\n\n")
        assert "model.width  2" in text
        assert "1 x 28 x 28" in text
