from dataclasses import replace

import numpy as np
import pytest

from glassbert.data.pretraining.batches import PretrainBatch
from glassbert.data.pretraining.corpus_batches import CorpusBatches
from glassbert.data.pretraining.phases import Phase, PhasedBatches, stretches
from glassbert.errors import UserError
from helpers.corpora import batches_of, wiki_corpus

PHASES = (Phase(until=0.25, batch_tokens=128), Phase(until=0.75), Phase(until=1.0, max_length=64))


def phased(num_steps: int = 40) -> PhasedBatches:
    corpus = wiki_corpus(40)
    parts = []
    for stretch in stretches(PHASES, num_steps):
        made = batches_of(corpus, max_length=stretch.phase.max_length or 32)
        budget = stretch.phase.batch_tokens or 256
        starts = {"first_step": stretch.first_step, "first_epoch": stretch.first_epoch}
        parts.append(CorpusBatches(corpus, made.rules, batch_tokens=budget, seed=1, **starts))  # type: ignore[arg-type]
    return PhasedBatches(parts)


def key(batch: PretrainBatch) -> tuple[bytes, bytes]:
    return batch.ids.tobytes(), batch.labels["mlm"].values.tobytes()


def test_batches_grow_and_texts_become_longer_at_the_steps_asked_for() -> None:
    batches = [phased().batch(step, 40) for step in range(40)]
    for part, budget, longest in (
        (batches[:10], 128, 32),
        (batches[10:30], 256, 32),
        (batches[30:], 256, 64),
    ):
        assert budget * 0.7 < max(batch.num_tokens for batch in part) <= budget
        assert max(batch.lengths[-1] for batch in part) == longest


def test_a_batch_of_a_phase_does_not_depend_on_who_asks_for_it_or_when() -> None:
    made = phased()
    expected = [key(made.batch(step, 40)) for step in range(40)]
    assert len(set(expected)) == 40
    for step in (39, 0, 29, 30, 9, 10):
        assert key(phased().batch(step, 40)) == expected[step]
    resumed = phased()
    made.epoch_of(40)
    resumed.restore_counts(made.counts_so_far())
    assert [key(resumed.batch(step, 40)) for step in range(40)] == expected


def test_a_phase_visits_the_text_in_an_order_of_its_own() -> None:
    first, second = (
        np.concatenate([phased().batch(step, 40).ids for step in range(start, start + 8)])[:500]
        for start in (0, 10)
    )
    assert not np.array_equal(first, second)


def test_epochs_of_all_phases_are_counted() -> None:
    made = phased()
    done = [made.epoch_of(step) for step in range(41)]
    assert done[0] == 0
    assert all(after > before for before, after in zip(done[:-1], done[1:], strict=True))
    alone = [replace_first_step(part) for part in made.parts]
    lengths = (10, 20, 10)
    assert done[40] == pytest.approx(sum(part.epoch_of(n) for part, n in zip(alone, lengths, strict=True)))


def replace_first_step(part: CorpusBatches) -> CorpusBatches:
    return CorpusBatches(
        part.corpus,
        part.rules,
        batch_tokens=part.batch_tokens,
        seed=part.seed,
        first_epoch=part.first_epoch,
    )


def test_what_the_phases_leave_open_is_one_more() -> None:
    found = stretches([Phase(until=0.5, batch_tokens=8)], 10)
    assert [(one.first_step, one.phase.batch_tokens) for one in found] == [(0, 8), (5, None)]
    assert len({one.first_epoch for one in found}) == 2
    short = stretches([Phase(until=0.01), Phase(until=1.0)], 10)
    assert [one.first_step for one in short] == [0]


@pytest.mark.parametrize("ends", [(0.5, 0.5), (0.7, 0.2)])
def test_phases_that_do_not_follow_each_other_are_refused(ends: tuple[float, ...]) -> None:
    with pytest.raises(UserError, match="expected each later than the last"):
        stretches([replace(PHASES[0], until=end) for end in ends], 10)


@pytest.mark.parametrize("until", [0.0, -1.0, 1.5])
def test_a_phase_outside_the_run_is_refused(until: float) -> None:
    with pytest.raises(UserError, match="expected a number of more than 0 and at most 1"):
        Phase(until=until)
