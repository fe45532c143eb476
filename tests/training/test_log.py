import json
from pathlib import Path

from glassbert.training.status import Status
from helpers.small_run import STEPS, run


def test_without_a_display_every_log_becomes_a_line(tmp_path: Path) -> None:
    reported: list[str] = []
    run(tmp_path, reported=reported, log_every=5)
    assert [line.split()[1] for line in reported if line.startswith("step ")] == ["5", "10", "12"]
    assert sum(line.startswith("held out: ") for line in reported) == 3


def test_a_display_sees_each_step_and_no_line_repeats_it(tmp_path: Path) -> None:
    reported: list[str] = []
    shown: list[Status] = []
    run(tmp_path, reported=reported, on_status=shown.append, log_every=5)
    assert [reading.step for reading in shown] == list(range(1, STEPS + 1))
    assert [reading.num_steps for reading in shown] == [STEPS] * STEPS
    assert shown[-1].left_s == 0.0
    assert not [line for line in reported if line.startswith("step ")]
    assert sum(line.startswith("held out: ") for line in reported) == 3, "verdicts stay"
    steps = [json.loads(line)["step"] for line in (tmp_path / "speed.jsonl").read_text().splitlines()]
    assert steps == [5, 10, 12]


def test_speed_and_memory_are_logged_beside_the_metrics(tmp_path: Path) -> None:
    run(tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "speed.jsonl").read_text().splitlines()]
    assert [set(row) for row in rows] == [
        {"step", "elapsed_s", "tokens_per_s", "memory_bytes", "teaching_tokens_per_cpu_s"}
    ] * STEPS
    # The speeds, times the time between the lines, give back the tokens of the batches: 256 at most.
    seconds = [
        after["elapsed_s"] - before["elapsed_s"] for before, after in zip(rows, rows[1:], strict=False)
    ]
    tokens = [row["tokens_per_s"] * s for row, s in zip(rows[1:], seconds, strict=True)]
    assert 100 < sorted(tokens)[len(tokens) // 2] < 600
    assert "memory" not in (tmp_path / "metrics.jsonl").read_text()
