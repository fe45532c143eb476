import torch

from glassbert.training.hardware import measured_peak, peak_memory


def test_peak_memory_is_in_bytes_and_counts_what_is_held() -> None:
    block = torch.ones(2**24)  # 64 MiB, touched
    peak = peak_memory(torch.device("cpu"))
    assert peak is not None
    assert block.nbytes < peak < 2**40


def test_the_peak_of_the_machine_is_that_of_a_real_product() -> None:
    assert 1e8 < measured_peak(torch.device("cpu"), seconds=0.05) < 1e14
