import json
from pathlib import Path

import torch

from glassbert.training.machine import measured_peak, peak_memory
from glassbert.training.reading import Reading, duration
from training.small_run import STEPS, run

READING = Reading(
    step=40,
    num_steps=100,
    losses={"mlm_loss": 6.5, "nsp_loss": 0.69, "mlm_accuracy": 0.123},
    learning_rate=2e-4,
    tokens_per_s=3412.4,
    share_of_peak=0.58,
    memory_bytes=1_234_000_000,
    elapsed_s=40.0,
    left_s=60.0,
)


def test_a_line_tells_losses_rate_speed_memory_and_time_left() -> None:
    assert READING.line() == (
        "step 40  mlm_loss 6.5000  nsp_loss 0.6900  mlm_accuracy 0.1230  lr 2.00e-04  "
        "3,412 tokens/s (58% of peak)  1.23 GB  1:00 left"
    )
    assert READING.share_done == 0.4


def test_durations_read_as_people_write_them() -> None:
    assert [duration(s) for s in (0, 59.6, 61, 3600, 86399)] == [
        "0:00",
        "1:00",
        "1:01",
        "1:00:00",
        "23:59:59",
    ]


def test_without_a_display_every_log_becomes_a_line(tmp_path: Path) -> None:
    told: list[str] = []
    run(tmp_path, told=told, log_every=5)
    assert [line.split()[1] for line in told if line.startswith("step ")] == ["5", "10", "12"]
    assert sum(line.startswith("held out: ") for line in told) == 3


def test_a_display_sees_each_step_and_no_line_repeats_it(tmp_path: Path) -> None:
    told: list[str] = []
    shown: list[Reading] = []
    run(tmp_path, told=told, show=shown.append, log_every=5)
    assert [reading.step for reading in shown] == list(range(1, STEPS + 1))
    assert [reading.num_steps for reading in shown] == [STEPS] * STEPS
    assert shown[-1].left_s == 0.0
    assert not [line for line in told if line.startswith("step ")]
    assert sum(line.startswith("held out: ") for line in told) == 3, "verdicts stay"
    steps = [json.loads(line)["step"] for line in (tmp_path / "speed.jsonl").read_text().splitlines()]
    assert steps == [5, 10, 12]


def test_speed_and_memory_are_logged_beside_the_metrics(tmp_path: Path) -> None:
    run(tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "speed.jsonl").read_text().splitlines()]
    assert [set(row) for row in rows] == [{"step", "elapsed_s", "tokens_per_s", "memory_bytes"}] * STEPS
    # The speeds, times the time between the lines, give back the tokens of the batches: 256 at most.
    seconds = [
        after["elapsed_s"] - before["elapsed_s"] for before, after in zip(rows, rows[1:], strict=False)
    ]
    tokens = [row["tokens_per_s"] * s for row, s in zip(rows[1:], seconds, strict=True)]
    assert 100 < sorted(tokens)[len(tokens) // 2] < 600
    assert "memory" not in (tmp_path / "metrics.jsonl").read_text()


def test_peak_memory_is_in_bytes_and_counts_what_is_held() -> None:
    block = torch.ones(2**24)  # 64 MiB, touched
    peak = peak_memory(torch.device("cpu"))
    assert peak is not None
    assert block.nbytes < peak < 2**40


def test_the_peak_of_the_machine_is_that_of_a_real_product() -> None:
    assert 1e8 < measured_peak(torch.device("cpu"), seconds=0.05) < 1e14
