"""The life of the page: its address is there at once, its model as soon as it is loaded."""

from pathlib import Path

from glassbert.page.app import Page, shelled
from glassbert.page.workbench import Workbench
from glassbert.serve.http.log import Log
from glassbert.serve.http.shell import App


class PageBackend:
    """Loads the model behind a page; see `glassbert.serve.http.server.Backend`."""

    def __init__(self, source: str | Path, log: Log) -> None:
        self.source, self._page = source, Page()
        self.app: App = shelled(self._page, log)

    @property
    def token(self) -> str:
        """The part of the address that only the user knows."""
        return self._page.token

    def start(self) -> None:
        """Load the model."""
        self._page.workbench = Workbench(self.source)

    def reload(self) -> None:
        """Load the model again; a damaged folder leaves the old one."""
        self._page.workbench = Workbench(self.source)

    def leave(self) -> None:
        """Nothing probes a page."""

    def refuse(self) -> None:
        """Take no more requests."""
        self._page.is_closing = True

    def is_idle(self) -> bool:
        """Nobody waits for the page of a user who ends it."""
        return True

    def stop(self) -> None:
        """End the model's thread."""
        self._page.close()

    def has_given_up(self) -> bool:
        """The page serves as long as its process lives."""
        return False
