"""Claims about the settings behind a table."""

from contilab.report.protocol import Protocol


class TestProtocol:
    """What cells share and what each has of its own."""

    def test_values_of_a_key(self):
        """A key has the value that all cells share, or each value that some cell has, once."""
        own = {"a": {"data.name": "cifar10"}, "b": {"data.name": "mine"}, "c": {"data.name": "mine"}, "d": {}}
        found = Protocol({"train.epochs": "1"}, own)

        assert found.values("train.epochs") == ("1",)
        assert found.values("data.name") == ("cifar10", "mine")
        assert found.values("method.strength") == ()
