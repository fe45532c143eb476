"""The dice of pre-training in plain Python integers, written from SplitMix64: what the product is held to."""

_MASK = (1 << 64) - 1
FLIP, CHOICE, FATE, REPLACEMENT = 4, 10, 11, 12


def roll(seed: int, purpose: int, *keys: int) -> float:
    """Return the number in [0, 1) of a purpose and its keys."""
    state = seed & _MASK
    for key in (purpose, *keys):
        state = (state + (key + 1) * 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return (state >> 11) / (1 << 53)
