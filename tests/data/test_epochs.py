from glassbert.data.epochs import Epochs


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
