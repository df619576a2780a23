"""Methods, and choices of their settings, are refused where a scenario does not know them."""

import pytest

from contilab.errors import ManifestError
from contilab.manifest.resolve import resolve
from contilab.plan.menu import catalog_menu

HEAD = 'name = "a"\nprofile = "smoke"\n[matrix]\npreset = ["synthetic_{scenario}"]\nmethod = {methods}\nseed = [0]\n'


def resolved(scenario, methods, *values):
    """Resolve a manifest of *methods* in *scenario*, given *values* as on the command line."""
    return resolve(HEAD.format(scenario=scenario, methods=methods), place="m.toml", values=values, menu=catalog_menu())


def faults(*given):
    """Return place and problem of each fault of such a manifest."""
    with pytest.raises(ManifestError) as caught:
        resolved(*given)
    return [(fault.place, fault.problem) for fault in caught.value.faults]


class TestHead:
    """The choice head = "ncm" of replay methods."""

    @pytest.mark.parametrize("method", ["er", "derpp"])
    def test_is_refused_where_all_tasks_share_their_classes(self, method):
        """Domain-incremental, a mean per class would mix all tasks: the setting is named, and the way out."""
        assert faults("domain", f'["{method}"]', "method.head=ncm") == [
            ("m.toml: method.head", f'head = "ncm" of {method} is not defined in the domain-incremental scenario')
        ]

    @pytest.mark.parametrize("scenario", ["task", "class"])
    @pytest.mark.parametrize("method", ["er", "derpp"])
    def test_is_offered_elsewhere(self, scenario, method):
        """In the other scenarios the cell has it among its settings."""
        (cell,) = resolved(scenario, f'["{method}"]', "method.head=ncm").cells

        assert cell.settings["method"]["head"] == "ncm"

    def test_linear_heads_are_offered_everywhere(self):
        """The default is no fault in any scenario."""
        (cell,) = resolved("domain", '["er"]').cells

        assert cell.settings["method"]["head"] == "linear"

    def test_comes_with_all_other_faults(self):
        """A head, a memory that contradicts itself and an optimiser's contradiction are three faults of one message."""
        found = faults(
            "domain", '["er"]', "method.head=ncm", "memory.policy=herding", "optim.nesterov=true", "optim.momentum=0.0"
        )

        assert [place for place, _ in found] == ["m.toml: memory", "m.toml: method.head", "m.toml: optim sgd"]


class TestMethodOfOtherScenarios:
    """A method that is not defined in every scenario: icarl has no domain-incremental form."""

    TWO = 'name = "a"\nprofile = "smoke"\n[matrix]\npreset = ["synthetic_class", "synthetic_domain"]\nseed = [0]\nmethod = '

    def test_is_left_out_of_presets_that_do_not_know_it(self):
        """With a preset that has it, it is trained there, and what is left out is told."""
        found = resolve(self.TWO + '["naive", "icarl"]', place="m.toml", values=(), menu=catalog_menu())

        assert [(cell.preset, cell.method) for cell in found.cells] == [
            ("synthetic_class", "naive"),
            ("synthetic_class", "icarl"),
            ("synthetic_domain", "naive"),
        ]
        assert found.left_out == ("icarl is not defined in the domain-incremental scenario: not in synthetic_domain",)

    def test_is_refused_if_no_preset_knows_it(self):
        """A study that could not train it at all is a mistake."""
        assert faults("domain", '["naive", "icarl"]') == [
            ("m.toml: matrix.method", "icarl is not defined in the domain-incremental scenario")
        ]
