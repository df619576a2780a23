"""Online, fuzzy and blurry streams are refused where they mean nothing, before anything is planned."""

import pytest

from contilab.errors import ManifestError
from contilab.manifest.resolve import resolve
from contilab.plan.expand import Expanded, expand
from contilab.plan.menu import catalog_menu

ONLINE, FUZZY, BLURRY = '"benchmark.online" = true', '"benchmark.fuzzy_steps" = 5', '"benchmark.blurry_share" = 0.3'


def expanded(
    *body: str, scenario: str = "class", methods: str = '"naive", "er", "gdumb"', epochs: int = 1, length: str = ""
) -> Expanded:
    """Return what a manifest of digits with the overrides *body* stands for."""
    matrix = f'[matrix]\npreset = ["split_digits_{scenario}"]\nmethod = [{methods}]\nseed = [0]\n'
    lines = [f'name = "a"\nprofile = "cpu"\n{matrix}[overrides]', length or f'"train.epochs" = {epochs}', *body]
    return expand(resolve("\n".join(lines), place="m.toml", values=(), menu=catalog_menu()), catalog_menu(), "m.toml")


class TestAccepted:
    """What can be planned."""

    @pytest.mark.parametrize("body", [ONLINE, FUZZY, BLURRY])
    def test_is_another_run(self, body: str) -> None:
        """Each of the settings is part of the address, and its default is not: addresses of earlier versions stay."""
        plain, other = expanded(), expanded(body)

        assert not set(plain.runs) & set(other.runs)
        assert not {"online", "fuzzy_steps", "blurry_share"} & set(next(iter(plain.runs.values())).config["benchmark"])

    def test_blurry_streams_take_several_passes(self) -> None:
        """A stream that is blurry alone is not online; gdumb has passes of its own anyway."""
        assert len(expanded(BLURRY, epochs=2).runs) == 3
        assert len(expanded(ONLINE, methods='"gdumb"', epochs=2).runs) == 1

    def test_online_streams_know_their_tasks(self) -> None:
        """They have the task-incremental scenario, and methods that choose exemplars when a task ends."""
        assert len(expanded(ONLINE, scenario="task", methods='"naive", "icarl"').runs) == 2


class TestRefused:
    """What cannot."""

    @pytest.mark.parametrize(
        ("body", "scenario", "methods", "epochs", "problem"),
        [
            (ONLINE, "class", '"naive"', 2, "the stream shows each sample once, and train.epochs = 2"),
            (FUZZY, "class", '"naive"', 2, "the stream shows each sample once, and train.epochs = 2"),
            (ONLINE, "class", '"cumulative"', 1, "cumulative learns earlier tasks again in each stage"),
            (FUZZY, "task", '"naive"', 1, "fuzzy boundaries are not defined in the task-incremental scenario"),
            (BLURRY, "task", '"naive"', 1, "blurry tasks are not defined in the task-incremental scenario"),
            (FUZZY, "class", '"icarl"', 1, "icarl chooses the exemplars of a class once"),
            (BLURRY, "class", '"icarl"', 1, "icarl chooses the exemplars of a class once"),
        ],
    )
    def test_in_one_sentence(self, body: str, scenario: str, methods: str, epochs: int, problem: str) -> None:
        """The key, what it cannot be joined with, and the way out."""
        with pytest.raises(ManifestError) as raised:
            expanded(body, scenario=scenario, methods=methods, epochs=epochs)
        (fault,) = raised.value.faults

        assert fault.place == f"m.toml: {body.split(chr(34))[1]} of preset split_digits_{scenario}"
        assert fault.problem.startswith(problem)
        assert fault.hint

    def test_steps_beyond_one_pass(self) -> None:
        """A number of steps is no single pass."""
        with pytest.raises(ManifestError, match=r"train\.steps = 9"):
            expanded(ONLINE, length='"train.steps" = 9', methods='"naive"')
