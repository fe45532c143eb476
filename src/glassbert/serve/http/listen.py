"""Sockets to listen on: opened before anything is loaded, so that probes are answered from the start."""

import os
import socket

from glassbert.errors import UserError

BACKLOG = 2048


def listen(host: str, port: int, number: int = 1) -> list[socket.socket]:
    """Return sockets that listen on one address; the kernel spreads connections over them.

    A socket that systemd opened for this process comes first.

    Args:
        port: 0 takes a free one.
    """
    if os.environ.get("LISTEN_PID") == str(os.getpid()) and int(os.environ.get("LISTEN_FDS", "0")) >= 1:
        return [socket.socket(fileno=3)]
    first = _listening(host, port)
    if number == 1:
        return [first]
    # A shared port is never reported as in use, so a socket that does not share tries first.
    port = first.getsockname()[1]
    first.close()
    return [_listening(host, port, is_shared=True) for _ in range(number)]


def address_of(listening: socket.socket) -> str:
    """Return the address of a socket as clients write it."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _listening(host: str, port: int, *, is_shared: bool = False) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off where the protocol is named; with it, an answer waits 40 ms.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if is_shared:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        bound.bind((host, port))
        bound.listen(BACKLOG)
    except (OSError, OverflowError, TypeError) as error:  # of a name with NUL or half of a character
        bound.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(
            f"cannot listen on {host}:{port}: {reason}; choose another --port or --host"
        ) from None
    return bound
