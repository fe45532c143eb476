"""CRC-32C agrees with published values and with the definition, at every length where the folding changes."""

import numpy as np
import pytest

from glassbert.interop.tf1.crc32c import _CHUNK_SIZE, crc32c, masked_crc32c


def by_definition(data: bytes) -> int:
    remainder = 0xFFFFFFFF
    for byte in data:
        remainder ^= byte
        for _ in range(8):
            remainder = remainder >> 1 ^ (0x82F63B78 if remainder & 1 else 0)
    return remainder ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"a", 0xC1D04330),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_published_values_are_met(data: bytes, expected: int) -> None:
    assert crc32c(np.frombuffer(data, np.uint8)) == expected


@pytest.mark.parametrize("length", [1, 3, 4, 5, 289, 290, 291, 443, 444, 445, 579, 580, 581, 2321, 10_007])
def test_folding_keeps_the_remainder(length: int) -> None:
    data = np.random.default_rng(length).integers(0, 256, length, np.uint8)
    assert crc32c(data) == by_definition(data.tobytes())


def test_data_longer_than_a_chunk_agrees_with_another_implementation() -> None:
    data = (np.arange(5_000_003, dtype=np.uint64) ** 2 % 251).astype(np.uint8)
    assert len(data) > _CHUNK_SIZE
    assert crc32c(data) == 0x29156867  # by google-crc32c


def test_the_data_are_left_untouched() -> None:
    data = np.arange(5_000, dtype=np.uint8)
    data.flags.writeable = False
    crc32c(data)


def test_masking_rotates_by_15_and_adds_the_constant() -> None:
    crc = 0xE3069283
    rotated = (crc >> 15) | (crc & 0x7FFF) << 17
    assert masked_crc32c(np.frombuffer(b"123456789", np.uint8)) == (rotated + 0xA282EAD8) % 2**32
