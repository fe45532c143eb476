"""The life of the page: it has an address at once, and its model as soon as it is loaded."""

from functools import partial
from pathlib import Path

from glassbert.errors import ModelError
from glassbert.inference.devices import Place
from glassbert.messages import to_stderr
from glassbert.page.app import Damage, Page, in_shell
from glassbert.page.run_folder import RunFolder
from glassbert.page.workbench import Workbench
from glassbert.sentence import said_by
from glassbert.serve.http.log import Log
from glassbert.serve.http.shell import App

CONFIG = "config.json"


class PageBackend:
    """Loads the model behind a page; see `glassbert.serve.http.server.Backend`."""

    def __init__(
        self,
        source: str | Path,
        log: Log,
        *,
        other: str | Path | None = None,
        data: str | Path | None = None,
        place: Place | None = None,
    ) -> None:
        new_bench = partial(Workbench, other=other, data=data, place=place)
        self.source, self._page = source, Page(new_bench=new_bench)
        self._log = log
        self.app: App = in_shell(self._page, log)

    @property
    def token(self) -> str:
        """The part of the address that only the user knows."""
        return self._page.token

    def start(self) -> None:
        """Load the model; a run that has saved none yet is shown without."""
        self._page.run = RunFolder.of(self.source)
        self._load()

    def reload(self) -> None:
        """Load the model again; a damaged folder leaves the old one."""
        self._load()

    def _load(self) -> None:
        run = self._page.run
        source = self.source if run is None else run.newest_model()
        if source is None:
            return
        try:
            self._page.workbench = self._page.new_bench(source)
        except ModelError as error:
            # A folder without a model ends the start; a damaged model is shown under Health.
            if self._page.workbench is not None or not (Path(source) / CONFIG).is_file():
                raise
            self._page.damage = Damage(str(source), said_by(error))
            self._log.event("the model cannot be loaded; the page shows its health alone")
            to_stderr(f"{error}; the page shows its health alone")

    def leave(self) -> None:
        """Nothing probes a page."""

    def refuse(self) -> None:
        """Take no more requests."""
        self._page.is_closing = True

    def is_idle(self) -> bool:
        """Nothing to wait for: the user who ends the page is its only client."""
        return True

    def stop(self) -> None:
        """End the model's thread."""
        self._page.close()

    def has_given_up(self) -> bool:
        """The page serves as long as its process lives."""
        return False
