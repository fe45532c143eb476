import numpy as np
import pytest

from glassbert.data.epochs import Epochs, shuffled_batches

RNG = np.random.default_rng(0)
LENGTHS = RNG.integers(3, 120, size=1000)


def test_steps_walk_through_epochs_of_different_lengths() -> None:
    epochs = Epochs(lambda epoch: [f"{epoch}.{index}" for index in range(epoch + 2)])
    assert [epochs.batch(step) for step in range(6)] == ["0.0", "0.1", "1.0", "1.1", "1.2", "2.0"]
    assert epochs.batch(1) == "0.1"
    assert epochs.place_of(5) == (2, 0)
    assert [epochs.num_done(step) for step in (0, 1, 2, 7)] == [0.0, 0.5, 1.0, 2.5]


def test_epochs_become_steps() -> None:
    epochs = Epochs(lambda epoch: range(epoch + 2))
    assert [epochs.steps_in(share) for share in (0.01, 0.5, 0.6, 1.0, 1.5, 2.0)] == [1, 1, 2, 2, 4, 5]


def test_an_epoch_is_planned_once_while_it_lasts() -> None:
    planned: list[int] = []

    def plan(epoch: int) -> list[int]:
        planned.append(epoch)
        return [0, 1, 2]

    epochs = Epochs(plan)
    for step in (0, 1, 2, 3, 2, 3, 4, 5, 6, 7):
        epochs.batch(step)
    assert planned == [0, 1, 2]


def batches(
    epoch: int = 0, seed: int = 0, batch_size: int = 32, batch_tokens: int = 10**6
) -> list[np.ndarray]:
    return shuffled_batches(LENGTHS, batch_size=batch_size, batch_tokens=batch_tokens, seed=seed, epoch=epoch)


def test_an_epoch_visits_every_example_once() -> None:
    for epoch in range(3):
        assert sorted(np.concatenate(batches(epoch)).tolist()) == list(range(1000))


def test_batches_depend_on_seed_and_epoch_alone() -> None:
    assert all(map(np.array_equal, batches(1, seed=5), batches(1, seed=5)))
    assert not np.array_equal(np.concatenate(batches(0)), np.concatenate(batches(1)))
    assert not np.array_equal(np.concatenate(batches(0)), np.concatenate(batches(0, seed=1)))


@pytest.mark.parametrize("number", [1, 31, 32, 33, 1000])
def test_no_batch_is_small(number: int) -> None:
    sizes = [
        len(batch)
        for batch in shuffled_batches(LENGTHS[:number], batch_size=32, batch_tokens=10**6, seed=0, epoch=0)
    ]
    assert max(sizes) <= 32
    assert max(sizes) - min(sizes) <= 1


def test_a_batch_goes_from_short_to_long_and_an_epoch_does_not() -> None:
    assert all((np.diff(LENGTHS[batch]) >= 0).all() for batch in batches())
    means = [LENGTHS[batch].mean() for batch in batches()]
    assert abs(np.corrcoef(np.arange(len(means)), means)[0, 1]) < 0.5


def test_texts_of_any_length_meet_in_a_batch() -> None:
    deviations = [LENGTHS[batch].std() for batch in batches()]
    assert min(deviations) > 0.5 * LENGTHS.std()


def test_a_batch_over_the_token_budget_is_divided() -> None:
    found = batches(batch_tokens=500)
    assert sorted(np.concatenate(found).tolist()) == list(range(1000))
    assert max(LENGTHS[batch].sum() for batch in found) < 500 + LENGTHS.max()
    alone = shuffled_batches(np.array([900]), batch_size=4, batch_tokens=100, seed=0, epoch=0)
    assert [batch.tolist() for batch in alone] == [[0]]
