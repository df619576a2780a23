from dataclasses import replace

from contilab.manifest.resolve import resolve
from contilab.plan.expand import Expanded, expand
from contilab.plan.grouping import groups
from contilab.plan.menu import catalog_menu

HEAD = 'name = "a"\nprofile = "cpu"\n[matrix]\npreset = ["synthetic_class"]\nmethod = ["ewc"]\nseed = [0, 1, 2]\n'


def _expanded(body: str = "", *values: str) -> Expanded:
    return expand(resolve(HEAD + body, place="m.toml", values=values, menu=catalog_menu()), catalog_menu())


def _groups(study: Expanded, without: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    return groups(study.cells, study.runs, without, catalog_menu())


class TestGroups:
    """Which runs are trained together."""

    def test_seeds(self) -> None:
        """Runs that differ in their seed only are one group, in the order of the manifest."""
        study = _expanded()

        assert _groups(study) == [tuple(study.runs)]

    def test_settings_taken_per_member(self) -> None:
        """Learning rate and strength may differ inside of a group."""
        study = _expanded('[sweep]\n"optim.lr" = [0.1, 0.2]\n"method.strength" = [1, 2]', "engine.max_members=32")

        assert _groups(study) == [tuple(study.runs)]
        assert len(study.runs) == 12

    def test_weight_decay(self) -> None:
        """Weight decays may differ inside of a group, but runs without decay are another group, which pays nothing for it."""
        study = _expanded('[sweep]\n"optim.weight_decay" = [0.1, 0, 0.2]')
        decays = [{study.runs[rid].optim.settings["weight_decay"] for rid in group} for group in _groups(study)]

        assert decays == [{0.1, 0.2}, {0.0}]

    def test_other_settings(self) -> None:
        """Everything else is equal inside of a group."""
        study = _expanded('[sweep]\n"train.batch" = [8, 16]\n"method.variant" = ["online", "separate"]')

        assert [len(group) for group in _groups(study)] == [3, 3, 3, 3]

    def test_size(self) -> None:
        """A group has at most so many runs as the manifest says, and of several groups none is much smaller."""
        study = _expanded('[sweep]\n"optim.lr" = [0.1, 0.2]', "engine.max_members=4")

        assert [len(group) for group in _groups(study)] == [3, 3]
        assert [rid for group in _groups(study) for rid in group] == list(study.runs)

    def test_runs_left_out(self) -> None:
        """Runs that have a result or a group are left out."""
        study = _expanded()
        first, *others = study.runs

        assert _groups(study, (first,)) == [tuple(others)]
        assert _groups(study, tuple(study.runs)) == []

    def test_run_of_two_cells(self) -> None:
        """A run that two cells share is in one group."""
        study = _expanded()
        twice = (*study.cells, replace(study.cells[0], preset="other"))

        assert groups(twice, study.runs, (), catalog_menu()) == [tuple(study.runs)]

    def test_executions(self) -> None:
        """Runs that are to be executed in different ways are not trained together."""
        body = (
            '[preset_overrides.synthetic_task]\n"engine.execution" = "loop"\n"benchmark.scenario" = "class"\n"optim.lr" = 0.3'
        )
        study = _expanded(body, 'matrix.preset=["synthetic_class", "synthetic_task"]')

        assert [len(group) for group in _groups(study)] == [3, 3]
