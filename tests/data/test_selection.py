"""Choosing samples by hash, and how many of each class."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contilab.data.selection import even_quotas, first, held_out, ranks, shuffled

SIZES = st.lists(st.integers(0, 60), min_size=1, max_size=8)


class TestRanks:
    """Ranks of samples."""

    def test_are_committed(self) -> None:
        """The ranks of a key never change: they are part of what a benchmark is."""
        assert ranks("key", 3).tolist() == [1496518105733155841, 9814061828612327238, 5602975045404539905]

    def test_do_not_depend_on_the_number_of_samples(self) -> None:
        """A sample's rank depends on key and index only, so more samples leave it as it is."""
        assert ranks("key", 50)[:10].tolist() == ranks("key", 10).tolist()

    def test_keys_give_different_orders(self) -> None:
        """Two keys give two orders, each of them a permutation."""
        assert shuffled("a", 10) != shuffled("b", 10)
        assert sorted(shuffled("a", 10)) == list(range(10))


class TestFirst:
    """The first samples by rank."""

    def test_does_not_depend_on_the_order_of_samples(self) -> None:
        """Presented in another order, the same samples are chosen, and they come out ascending."""
        indices = np.arange(5, 40)

        chosen = first(indices, ranks("key", 40), 7)

        assert chosen.tolist() == first(indices[::-1], ranks("key", 40), 7).tolist() == sorted(chosen)

    def test_more_contains_fewer(self) -> None:
        """A smaller choice is part of a larger one."""
        indices, rank = np.arange(40), ranks("key", 40)

        assert set(first(indices, rank, 5)) < set(first(indices, rank, 6))


class TestHeldOut:
    """The size of a class's validation part."""

    @given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
    def test_is_within_one_sample_of_the_share(self, samples: int, share: float) -> None:
        """At least one sample stays for training, and the held out ones are within one of the share."""
        held = held_out(samples, share)

        assert 0 <= held < samples
        assert abs(held - samples * share) <= 1

    @pytest.mark.parametrize("samples", [0, 1, 7000])
    def test_share_zero_holds_out_nothing(self, samples: int) -> None:
        """With share 0 every sample is trained on."""
        assert held_out(samples, 0) == 0


class TestEvenQuotas:
    """How many samples of each class are kept."""

    @given(SIZES, st.integers(0, 500))
    def test_is_as_even_as_the_classes_allow(self, available: list[int], total: int) -> None:
        """All that is asked for is kept, or all there is; classes that are not exhausted differ by at most one."""
        quotas = even_quotas(available, total)

        assert sum(quotas) == min(total, sum(available))
        assert all(quota <= size for quota, size in zip(quotas, available, strict=True))
        open_quotas = [quota for quota, size in zip(quotas, available, strict=True) if quota < size]
        assert not open_quotas or max(quotas) - min(open_quotas) <= 1

    @given(SIZES, st.integers(0, 500))
    def test_more_is_never_less(self, available: list[int], total: int) -> None:
        """One sample more never takes one away from any class."""
        fewer, more = even_quotas(available, total), even_quotas(available, total + 1)

        assert all(a <= b for a, b in zip(fewer, more, strict=True))
