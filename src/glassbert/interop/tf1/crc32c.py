"""CRC-32C (Castagnoli) with numpy, fast enough to check a whole BERT within a second.

Bits are the coefficients of a polynomial over GF(2), the first one highest, and their CRC is its remainder
by the polynomial P. A loop over bytes would take a minute for one BERT, so most are folded away first:

P divides x^290 + x^136 + x^113 + x^107 + x^32 + 1, so a bit has the same remainder as five bits
290 - 136, 290 - 113, ... and 290 places later. Squaring a sum over GF(2) squares each of its terms, so
this also holds with all distances doubled, any number of times: times 8 for whole bytes, times 4096 for long
runs of bytes, which numpy adds (exclusive or) to the five runs that replace them.
"""

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

_DEGREE = 290
_DISTANCES = tuple(_DEGREE - exponent for exponent in (136, 113, 107, 32, 0))
_SCALES = tuple(2**k for k in range(9, -1, -1))  # in bytes
_CHUNK_SIZE = 2**22
_REVERSED_POLYNOMIAL = 0x82F63B78  # P without its highest term, the lowest exponent in the highest bit


def _byte_remainder(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_REVERSED_POLYNOMIAL if byte & 1 else 0)
    return byte


_REMAINDERS = tuple(map(_byte_remainder, range(256)))


def crc32c(data: Bytes) -> int:
    """Return the CRC-32C of ``data``."""
    remainder = 0xFFFF_FFFF
    folded = np.empty(0, np.uint8)
    for start in range(0, len(data), _CHUNK_SIZE):
        folded = np.concatenate([folded, data[start : start + _CHUNK_SIZE]])
        if start == 0 and len(folded) >= 4:
            # To start from ones is to start from zero with the first 32 bits flipped; those can be folded.
            folded[:4] ^= 0xFF
            remainder = 0
        folded = _fold(folded)
    for byte in folded.tolist():
        remainder = remainder >> 8 ^ _REMAINDERS[(remainder ^ byte) & 0xFF]
    return remainder ^ 0xFFFF_FFFF


def masked_crc32c(data: Bytes) -> int:
    """Return the CRC-32C rotated and shifted, as files store it to avoid checksums of checksums."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282_EAD8) & 0xFFFF_FFFF


def _fold(data: Bytes) -> Bytes:
    """Return at most ``_DEGREE`` bytes of the same remainder as ``data``, which is overwritten."""
    start = 0
    for scale in _SCALES:
        longest = min(_DISTANCES) * scale  # a longer run would reach the bytes that it is added to
        while (excess := len(data) - start - _DEGREE * scale) > 0:
            size = min(longest, excess)
            run = data[start : start + size]
            for distance in _DISTANCES:
                place = start + distance * scale
                data[place : place + size] ^= run
            start += size
    return data[start:]
