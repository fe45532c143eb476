"""Work for other processes, which can import this module but not a file of tests."""

import time


def late_when_even(number: int) -> int:
    time.sleep(0.05 * (number % 2 == 0))
    return number * number


def refuse_three(number: int) -> int:
    if number == 3:
        raise ValueError("three")
    return number
