import pytest
import torch
import torch.nn.functional as F

from glassbert.tasks import vocabulary_loss as module
from glassbert.tasks.vocabulary_loss import smoothed_vocabulary_loss, vocabulary_loss


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


@pytest.mark.parametrize("block_numbers", [1, 64, 10_000])
def test_half_precision_rounds_the_products_and_nothing_else(
    block_numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLOCK_NUMBERS", block_numbers)
    torch.manual_seed(0)
    # Numbers that half precision holds exactly: what remains is the rounding of products and of the gradient.
    inputs = [torch.randn(200, 6).bfloat16().float(), torch.randn(20, 6).bfloat16().float(), torch.randn(20)]
    labels = torch.randint(20, (200,))
    results = []
    for is_narrow in (True, False):
        features, weight, bias = (tensor.clone().requires_grad_() for tensor in inputs)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_narrow):
            loss, num_correct = vocabulary_loss(features, weight, bias, labels)
        loss.backward()
        assert {x.dtype for x in (loss, features.grad, weight.grad)} == {torch.float32}
        results.append([loss.detach(), features.grad, weight.grad, bias.grad])
    for narrow, full in zip(*results, strict=True):
        torch.testing.assert_close(narrow, full, rtol=0.02, atol=0.05)
    assert not torch.equal(results[0][2], results[1][2])
    # Without a gradient a loss is a measurement, and is not rounded at all.
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        measured, _ = vocabulary_loss(*inputs, labels)
    assert torch.equal(measured, results[1][0])


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


@pytest.mark.parametrize("block_numbers", [1, 64, 10_000])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_smoothed_loss_and_gradients_are_those_of_the_plain_way(
    block_numbers: int, smoothing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLOCK_NUMBERS", block_numbers)
    torch.manual_seed(0)
    inputs = [torch.randn(9, 6), torch.randn(20, 6), torch.randn(20)]
    labels = torch.randint(20, (9,))
    features, weight, bias = (tensor.clone().requires_grad_() for tensor in inputs)
    loss, plain, num_correct = smoothed_vocabulary_loss(features, weight, bias, labels, smoothing)
    (loss / 7).backward()
    ours = [loss.detach(), plain, num_correct, features.grad, weight.grad, bias.grad]
    features, weight, bias = (tensor.clone().requires_grad_() for tensor in inputs)
    logits = F.linear(features, weight, bias)
    loss = F.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)
    (loss / 7).backward()
    plain = F.cross_entropy(logits, labels, reduction="sum").detach()
    theirs = [loss.detach(), plain, (logits.argmax(1) == labels).sum(), features.grad, weight.grad, bias.grad]
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our, their)


def test_smoothing_by_nothing_changes_no_bit() -> None:
    torch.manual_seed(0)
    inputs, labels = [torch.randn(50, 8), torch.randn(30, 8), torch.randn(30)], torch.randint(30, (50,))
    results = []
    for is_smoothed in (False, True):
        features, weight, bias = (tensor.clone().requires_grad_() for tensor in inputs)
        if is_smoothed:
            loss, _, _ = smoothed_vocabulary_loss(features, weight, bias, labels, 0.0)
        else:
            loss, _ = vocabulary_loss(features, weight, bias, labels)
        loss.backward()
        results.append([loss.detach(), features.grad, weight.grad, bias.grad])
    for one, other in zip(*results, strict=True):
        assert one is not None
        assert other is not None
        assert torch.equal(one, other)
