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
            ("command line: method.head", f'head = "ncm" of {method} is not defined in the domain-incremental scenario')
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

        assert [place for place, _ in found] == [
            "command line: memory.policy",
            "command line: method.head",
            "m.toml: optim sgd",
        ]


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

    def study(self, lines, body, *values):
        """Return the study of er and of each such method, of which the manifest has *lines*, its matrix and *body*."""
        methods = ["er", *dict.fromkeys(method for method, _ in only_values())]
        text = "\n".join([*lines, HEAD.format(scenario="class", methods=methods) + body])
        return resolve(text, place="m.toml", values=values, menu=catalog_menu())

    def memories(self, study):
        """Return the settings of memory in *study*, by method."""
        return {cell.method: cell.settings["memory"] for cell in study.cells}

    @pytest.mark.parametrize(
        ("form", "is_on_the_command_line"),
        [
            ("method_overrides.{}.memory.{} = '{}'", True),
            ("method_overrides.{}.synthetic_class.memory.{} = '{}'", False),
            ("method_sweep.{}.memory.{} = ['{}']", False),
        ],
    )
    def test_another_value_for_that_method_is_refused(self, form, is_on_the_command_line):
        """A value meant for this method that does not fit it is a mistake, told where it was written."""
        given = [form.format(method, key, self.OTHER[key]) for method, key in only_values()]
        overrides = "[overrides]\nmemory.policy = 'reservoir'"
        with pytest.raises(ManifestError) as caught:
            self.study([], overrides, *given) if is_on_the_command_line else self.study(given, overrides)

        assert caught.value.faults == tuple(
            Fault(
                f"{'command line' if is_on_the_command_line else 'm.toml'}: {form.split(' = ')[0].format(method, key)}",
                f'"{self.OTHER[key]}" does not fit {method}',
                f'it accepts "{value}"',
            )
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
        """What is said of all methods reaches er, and leaves the others the value that they have, which is told."""
        study = self.study([], body.format("memory.policy = 'ring_class'\nmemory.insert = 'every_epoch'"), *values)
        found = self.memories(study)

        assert {key: found["er"][key] for key in self.OTHER} == self.OTHER
        assert {(method, key): found[method][key] for method, key in only_values()} == only_values()
        assert sorted(study.left_out) == sorted(
            f'memory.{key} = "{self.OTHER[key]}" in {method}, which keeps "{value}"'
            for (method, key), value in only_values().items()
        )

    def test_values_of_an_axis_that_it_goes_without_are_told_in_one_line(self):
        """Its own values are none of them."""
        policies = "sweep.memory.policy=['ring', 'herding', 'reservoir']"
        found = resolved("class", '["er", "icarl"]', policies, "memory.insert=task_end")

        assert found.left_out == ('memory.policy = "ring" or "reservoir" in icarl, which keeps "herding"',)

    def test_a_value_for_all_methods_that_fits_none_is_refused(self):
        """In a study of methods without a choice, what fits one of them is meant for it, and what fits none is a mistake."""
        methods, both = '["naive", "gem", "icarl"]', 'sweep.memory.policy=["reservoir", "ring"]'
        with pytest.raises(ManifestError) as caught:
            resolved("class", methods, "memory.insert=task_end", both)

        assert caught.value.faults == (
            Fault("command line: sweep.memory.policy", '"reservoir" does not fit gem', 'it accepts "ring"'),
            Fault("command line: sweep.memory.policy", '"reservoir" does not fit icarl', 'it accepts "herding"'),
        )

    def test_its_own_value_is_accepted(self):
        """To write out what it does anyway is no fault."""
        given = [f"method_overrides.{method}.memory.{key} = '{value}'" for (method, key), value in only_values().items()]
        study = self.study(given, "")
        found = self.memories(study)

        assert study.left_out == ()
        assert {(method, key): found[method][key] for method, key in only_values()} == only_values()


class TestHerding:
    """The policy that chooses at the end of a task."""

    def faults(self, method, *values):
        """Return the faults of *method* in a manifest whose overrides have these *values*."""
        with pytest.raises(ManifestError) as caught:
            resolved("class", f'["{method}"]', *(f"overrides.memory.{value}" for value in values))
        return list(caught.value.faults)

    def test_is_refused_for_methods_that_take_in_during_training(self):
        """All at once: the policy with those that go with der, and the time of insertion if that does not suit it either."""
        policies = 'it accepts "reservoir", "class_balanced", "ring" or "ring_class"'
        policy = Fault("command line: overrides.memory.policy", '"herding" does not fit der', policies)
        times = 'it accepts "every_epoch" or "first_epoch"'
        insert = Fault("command line: overrides.memory.insert", '"task_end" does not fit der', times)

        assert self.faults("der", "policy=herding") == [policy]
        assert self.faults("der", "policy=herding", "insert=task_end") == [policy, insert]

    def test_names_the_time_of_insertion_that_it_needs(self):
        """A method that accepts any is told the one that goes with herding."""
        assert self.faults("er", "policy=herding") == [
            Fault(
                "command line: overrides.memory.policy",
                'policy = "herding" chooses at the end of a task, and insert = "first_epoch"',
                'set memory.insert = "task_end", or choose another policy',
            )
        ]
