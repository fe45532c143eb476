"""`python -m glassbert` is the `glassbert` command."""

from glassbert.start import handle_signals


def run() -> None:
    """Entry point of the installed command: it handles signals, and imports the rest after that."""
    handle_signals()
    from glassbert.cli.main import run

    run()


if __name__ == "__main__":
    run()
