import pytest
import torch

from glassbert.model.finite import is_finite

TYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_one_number_that_is_none_is_found_wherever_it_is(dtype: torch.dtype, value: float) -> None:
    numbers = torch.randn(37, 9, generator=torch.Generator().manual_seed(0)).to(dtype)
    assert is_finite(numbers)
    for place in range(numbers.numel()):
        damaged = numbers.clone()
        damaged.view(-1)[place] = value
        assert not is_finite(damaged), place


def test_the_largest_numbers_and_no_numbers_are_finite() -> None:
    assert is_finite(torch.full((3, 4), torch.finfo(torch.float32).max))
    assert is_finite(torch.empty(0, 4))
    assert not is_finite(torch.tensor(float("nan")))
