"""Methods, and choices of their settings, are refused where a scenario does not know them."""

import pytest

from contilab.errors import Fault, ManifestError
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


def only_values():
    """Return, by method and key, the value of each setting of memory of which a method of the catalog accepts no other."""
    found = {method: catalog_menu().entry("method", method).memory for method in catalog_menu().names["method"]}
    return {(method, key): values[0] for method, memory in found.items() for key, values in memory.items() if len(values) == 1}


class TestMemoryOfOneValue:
    """Settings of memory of which a method accepts one value, such as the ring of gem: all of the catalog in one manifest."""

    OTHER = {"policy": "ring_class", "insert": "every_epoch"}  # noqa: RUF012 - a table of the test

    def cells(self, lines, body, *values):
        """Return the cells of er and of each such method, by name, in a manifest of *lines*, its matrix and *body*."""
        methods = ["er", *dict.fromkeys(method for method, _ in only_values())]
        text = "\n".join([*lines, HEAD.format(scenario="class", methods=methods) + body])
        found = resolve(text, place="m.toml", values=values, menu=catalog_menu())
        return {cell.method: cell.settings["memory"] for cell in found.cells}

    @pytest.mark.parametrize(
        ("form", "is_on_the_command_line"),
        [
            ("method_overrides.{}.memory.{} = '{}'", True),
            ("method_overrides.{}.synthetic_class.memory.{} = '{}'", False),
            ("method_sweep.{}.memory.{} = ['{}']", False),
        ],
    )
    def test_another_value_for_that_method_is_refused(self, form, is_on_the_command_line):
        """A value meant for this method that does not fit it is a mistake, told as that of a method with a choice."""
        given = [form.format(method, key, self.OTHER[key]) for method, key in only_values()]
        overrides = "[overrides]\nmemory.policy = 'reservoir'"
        with pytest.raises(ManifestError) as caught:
            self.cells([], overrides, *given) if is_on_the_command_line else self.cells(given, overrides)

        assert caught.value.faults == tuple(
            Fault(f"m.toml: memory.{key}", f'"{self.OTHER[key]}" does not fit {method}', f'it accepts "{value}"')
            for (method, key), value in only_values().items()
        )

    @pytest.mark.parametrize(
        ("body", "values"),
        [
            ("[overrides]\n{}", ()),
            ("", ("memory.policy=ring_class", "memory.insert=every_epoch")),
            ("'memory.policy' = ['ring_class']\n'memory.insert' = ['every_epoch']", ()),
        ],
        ids=["overrides", "command line", "matrix"],
    )
    def test_a_value_for_all_methods_is_for_those_with_a_choice(self, body, values):
        """What is said of all methods reaches er, and leaves the others the value that they have."""
        found = self.cells([], body.format("memory.policy = 'ring_class'\nmemory.insert = 'every_epoch'"), *values)

        assert {key: found["er"][key] for key in self.OTHER} == self.OTHER
        assert {(method, key): found[method][key] for method, key in only_values()} == only_values()

    def test_a_value_for_all_methods_that_fits_none_is_refused(self):
        """In a study of methods without a choice, what fits one of them is meant for it, and what fits none is a mistake."""
        methods, both = '["naive", "gem", "icarl"]', 'sweep.memory.policy=["reservoir", "ring"]'
        with pytest.raises(ManifestError) as caught:
            resolved("class", methods, "memory.insert=task_end", both)

        assert caught.value.faults == (
            Fault("m.toml: memory.policy", '"reservoir" does not fit gem', 'it accepts "ring"'),
            Fault("m.toml: memory.policy", '"reservoir" does not fit icarl', 'it accepts "herding"'),
        )

    def test_its_own_value_is_accepted(self):
        """To write out what it does anyway is no fault."""
        given = [f"method_overrides.{method}.memory.{key} = '{value}'" for (method, key), value in only_values().items()]
        found = self.cells(given, "")

        assert {(method, key): found[method][key] for method, key in only_values()} == only_values()
