"""Normalisation when a batch is gathered: values, types, and where the constants come from."""

import numpy as np
import pytest
import torch

from contilab.data.normalisation import PIXELS, Normalisation, of_samples, of_unit


class TestApply:
    """What `apply` returns."""

    def test_is_per_channel(self) -> None:
        """Each channel is shifted and scaled by its own numbers, in float32, and the inputs stay as they are."""
        inputs = torch.tensor([[[[0, 2]], [[10, 20]]]], dtype=torch.uint8)

        made = Normalisation(shift=(1.0, 10.0), scale=(2.0, 5.0)).apply(inputs)

        assert made.tolist() == [[[[-0.5, 0.5]], [[0.0, 2.0]]]]
        assert made.dtype == torch.float32
        assert inputs.dtype == torch.uint8

    def test_one_number_serves_every_shape(self) -> None:
        """A single shift and scale apply to flat inputs and to images; pixels / 255 are the exact quotients."""
        inputs = torch.arange(256, dtype=torch.uint8).reshape(2, 128)

        assert torch.equal(PIXELS.apply(inputs), inputs.float() / 255)
        assert torch.equal(PIXELS.apply(inputs.reshape(2, 1, 8, 16)).flatten(1), inputs.float() / 255)

    def test_works_under_vmap(self) -> None:
        """Members that gather other batches get what each would get alone."""
        inputs = torch.randint(0, 256, (3, 4, 2, 5), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
        rule = Normalisation((1.0, 2.0), (3.0, 4.0))

        assert torch.equal(torch.vmap(rule.apply)(inputs), torch.stack([rule.apply(each) for each in inputs]))


class TestConstants:
    """Where shift and scale come from."""

    def test_published_constants_are_of_values_from_0_to_1(self) -> None:
        """Mean and standard deviation of 0 to 1 become those of 0 to 255."""
        found = of_unit((0.5, 0.25), (0.1, 0.2))

        assert found.shift == pytest.approx((127.5, 63.75))
        assert found.scale == pytest.approx((25.5, 51.0))

    def test_of_samples_are_mean_and_deviation_of_these_alone(self) -> None:
        """Mean and standard deviation per channel are numpy's over the chosen samples; others change nothing."""
        inputs = torch.randint(0, 256, (9000, 3, 2, 2), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
        chosen = torch.arange(0, 9000, 2)
        values = inputs[chosen].numpy().astype(np.float64)

        found = of_samples(inputs, chosen)
        inputs[1::2] = 255

        assert found.shift == pytest.approx(values.mean((0, 2, 3)), rel=1e-12)
        assert found.scale == pytest.approx(values.std((0, 2, 3)), rel=1e-12)
        assert of_samples(inputs, chosen) == found

    def test_flat_inputs_have_one_number_per_feature(self) -> None:
        """Of inputs without further axes each feature is a channel; one that never varies is only shifted."""
        found = of_samples(torch.tensor([[1, 7], [3, 7]], dtype=torch.uint8), torch.tensor([0, 1]))

        assert found == Normalisation((2.0, 7.0), (1.0, 1.0))

    def test_bytes_of_three_axes_are_gray_pictures(self) -> None:
        """Inputs [N, H, W] have one mean and deviation, those of the same pictures with an axis for their one channel."""
        pictures = torch.randint(0, 256, (40, 3, 5), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
        chosen = torch.arange(0, 40, 2)

        assert of_samples(pictures, chosen) == of_samples(pictures[:, None], chosen)
        assert len(of_samples(pictures, chosen).shift) == 1
