import math

import pytest
import torch
from torch import Tensor, nn

from glassbert.errors import RunFailed
from glassbert.training.optimizer import Average, make_optimizer
from glassbert.training.settings import TrainSettings
from glassbert.training.step import train_step


class Toy(nn.Module):
    """Squared error of a linear layer, summed over a part."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(3, 1)
        self.norm = nn.LayerNorm(3)

    def forward(self, part: Tensor) -> dict[str, Tensor]:
        return {"loss": self.linear(self.norm(part)).square().sum(), "seen": torch.tensor(len(part))}


def update(parts: list[Tensor], **options: float) -> tuple[Toy, dict[str, float], float]:
    toy = Toy()
    optimizer = torch.optim.SGD(toy.parameters(), lr=0.1)
    count = sum(map(len, parts))
    result = train_step(
        toy, parts, {"loss": count, "seen": 1}, {"loss": 1.0}, optimizer, **({"max_grad_norm": 0.0} | options)
    )
    return toy, result.losses, result.grad_norm


def test_parts_of_any_size_give_the_update_of_the_whole() -> None:
    rows = torch.randn(10, 3)
    whole, losses, _ = update([rows])
    split, split_losses, _ = update([rows[:1], rows[1:7], rows[7:]])
    torch.testing.assert_close(split.linear.weight, whole.linear.weight)
    assert split_losses == pytest.approx(losses)
    assert losses["seen"] == 10


def test_gradients_are_clipped_to_the_norm_asked_for() -> None:
    rows = torch.randn(10, 3) * 100
    free, _, norm = update([rows])
    clipped, _, same_norm = update([rows], max_grad_norm=norm / 2)
    assert norm == same_norm
    start = Toy()
    moved = (free.linear.weight - start.linear.weight).norm()
    assert (clipped.linear.weight - start.linear.weight).norm().item() == pytest.approx(
        moved.item() / 2, rel=1e-3
    )


def test_a_number_that_is_none_stops_before_the_update_and_is_named() -> None:
    toy = Toy()
    before = {name: value.clone() for name, value in toy.state_dict().items()}
    optimizer = torch.optim.SGD(toy.parameters(), lr=0.1)
    with pytest.raises(
        RunFailed, match=r"the gradient of linear.weight is not finite, nor is the loss loss; nothing"
    ):
        train_step(
            toy,
            [torch.full((2, 3), math.nan)],
            {"loss": 2, "seen": 1},
            {"loss": 1.0},
            optimizer,
            max_grad_norm=1,
        )
    assert all(torch.equal(before[name], value) for name, value in toy.state_dict().items())


def test_vectors_do_not_decay_and_deep_layers_learn_slower() -> None:
    settings = TrainSettings(steps=1, weight_decay=0.1, layer_decay=0.5)
    optimizer = make_optimizer(Toy(), lambda name: 1 if name.startswith("linear") else 0, settings)
    groups = [(g["weight_decay"], g["rate_scale"], len(g["params"])) for g in optimizer.param_groups]
    assert sorted(groups) == [(0.0, 0.5, 2), (0.0, 1.0, 1), (0.1, 1.0, 1)]


def test_an_average_follows_slowly_and_can_stand_in() -> None:
    toy = Toy()
    average = Average(toy.parameters(), decay=0.9)
    start = toy.linear.bias.item()
    with torch.no_grad():
        toy.linear.bias += 1.0
    average.update()
    average.swap()
    assert toy.linear.bias.item() == pytest.approx(start + 0.1)
    average.swap()
    assert toy.linear.bias.item() == pytest.approx(start + 1.0)


def test_half_precision_holds_for_the_products_of_the_optimizer_too() -> None:
    seen: list[torch.dtype] = []

    class Multiplying(torch.optim.SGD):
        def step(self, closure: None = None) -> None:  # type: ignore[override]
            seen.append((torch.ones(2, 2) @ torch.ones(2, 2)).dtype)
            super().step()

    for precision in (torch.float32, torch.bfloat16):
        toy = Toy()
        optimizer = Multiplying(toy.parameters(), lr=0.1)
        options = {"max_grad_norm": 0.0, "precision": precision, "device": torch.device("cpu")}
        train_step(toy, [torch.randn(4, 3)], {"loss": 4, "seen": 1}, {"loss": 1.0}, optimizer, **options)  # type: ignore[arg-type]
    assert seen == [torch.float32, torch.bfloat16]
