import pytest
import torch
import torch.nn.functional as F

from glassbert.tasks import vocabulary_loss as module
from glassbert.tasks.vocabulary_loss import vocabulary_loss


@pytest.mark.parametrize("block_numbers", [1, 64, 10_000])
def test_loss_and_gradients_are_those_of_the_plain_way(
    block_numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLOCK_NUMBERS", block_numbers)
    torch.manual_seed(0)
    inputs = [torch.randn(9, 6), torch.randn(20, 6), torch.randn(20)]
    labels = torch.randint(20, (9,))
    results = []
    for is_ours in (True, False):
        features, weight, bias = (tensor.clone().requires_grad_() for tensor in inputs)
        if is_ours:
            loss, num_correct = vocabulary_loss(features, weight, bias, labels)
        else:
            logits = F.linear(features, weight, bias)
            loss, num_correct = (
                F.cross_entropy(logits, labels, reduction="sum"),
                (logits.argmax(1) == labels).sum(),
            )
        (loss / 7).backward()
        results.append([loss.detach(), num_correct, features.grad, weight.grad, bias.grad])
    for ours, plain in zip(*results, strict=True):
        torch.testing.assert_close(ours, plain)


def test_large_logits_do_not_overflow() -> None:
    features, weight = torch.full((1, 4), 100.0), torch.eye(4) * 100
    loss, _ = vocabulary_loss(
        features * torch.tensor([1.0, 0, 0, 0]), weight, torch.zeros(4), torch.tensor([1])
    )
    torch.testing.assert_close(loss, torch.tensor(10_000.0))


def test_nothing_is_kept_for_a_gradient_when_none_is_wanted() -> None:
    with torch.no_grad():
        loss, num_correct = vocabulary_loss(
            torch.randn(3, 4), torch.randn(5, 4), torch.zeros(5), torch.tensor([0, 1, 2])
        )
    assert loss.grad_fn is None
    assert 0 <= num_correct <= 3
