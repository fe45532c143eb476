"""`python -m glassbert` is the `glassbert` command."""

from glassbert.cli.main import run

if __name__ == "__main__":
    run()
