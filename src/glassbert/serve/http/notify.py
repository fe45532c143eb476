"""Messages to systemd: ready, reloading, stopping, alive. Without it (no NOTIFY_SOCKET), nothing is sent."""

import os
import socket
import time


def notify(*lines: str) -> None:
    """Send lines such as READY=1; failures are ignored, since the server works without systemd."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        try:
            sender.connect("\0" + address[1:] if address.startswith("@") else address)
            sender.sendall("\n".join(lines).encode())
        except OSError:
            return


def notify_reloading() -> None:
    """Report that a reload begins; READY=1 ends it."""
    notify("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")


def watchdog_interval_s() -> float | None:
    """Return how often systemd expects a watchdog message; None if it does not."""
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    if not microseconds.isdecimal() or os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(microseconds) / 2e6
