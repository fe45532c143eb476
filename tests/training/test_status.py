from glassbert.training.status import Status, duration

READING = Status(
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


def test_a_line_shows_losses_rate_speed_memory_and_time_left() -> None:
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
