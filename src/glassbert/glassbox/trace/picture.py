"""Matrices as small pictures: one pixel for each number, transparent where it is near zero.

A picture is a palette PNG, written by hand, so that neither a page nor the package needs anything to draw it.
Colour shows the sign and opacity the size, so it is readable on light and dark pages.
"""

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

POSITIVE, NEGATIVE, NOTHING = (48, 110, 225), (208, 92, 20), (128, 128, 128)
"""Blue and orange, which no common colour blindness confuses; grey for NaN, infinity and hidden numbers."""
_MIDDLE = 127
_NO_NUMBER = 255
_GREY_OPACITY = 90


def picture(matrix: NDArray[np.float32]) -> str:
    """Return a data address of (rows, columns) numbers; the largest, by size, is opaque."""
    is_number = np.isfinite(matrix)
    finite = np.where(is_number, matrix, 0.0)
    largest = float(np.abs(finite).max(initial=0.0)) or 1.0
    levels = np.where(is_number, np.rint(finite / largest * _MIDDLE) + _MIDDLE, _NO_NUMBER)
    return "data:image/png;base64," + base64.b64encode(_png(levels.astype(np.uint8))).decode()


def side_by_side(matrices: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return (heads, rows, columns) as one matrix, the heads in a row with a line of NaN between them."""
    number, rows, columns = matrices.shape
    joined = np.full((rows, number * (columns + 1) - 1), np.nan, np.float32)
    for index, matrix in enumerate(matrices):
        start = index * (columns + 1)
        joined[:, start : start + columns] = matrix
    return joined


def _png(levels: NDArray[np.uint8]) -> bytes:
    """Return a PNG of levels: 0 is opaque orange, 127 transparent, 254 opaque blue, 255 grey."""
    rows, columns = levels.shape
    colours = [POSITIVE if level > _MIDDLE else NEGATIVE for level in range(_NO_NUMBER)] + [NOTHING]
    opacities = [round(abs(level - _MIDDLE) / _MIDDLE * 255) for level in range(_NO_NUMBER)] + [_GREY_OPACITY]
    lines = np.zeros((rows, columns + 1), np.uint8)  # each line begins with the number of its filter, 0
    lines[:, 1:] = levels
    chunks = {
        b"IHDR": struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0),  # 8 bits, palette
        b"PLTE": bytes(part for colour in colours for part in colour),
        b"tRNS": bytes(opacities),
        b"IDAT": zlib.compress(lines.tobytes(), 9),
        b"IEND": b"",
    }
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*one) for one in chunks.items())


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
