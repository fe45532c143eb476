"""`open`: the glass-box page."""

import webbrowser
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from glassbert.cli.device import DeviceOptions, place_of
from glassbert.model_names import model_folder
from glassbert.ranges import PORT


def open_page(
    model: str = "demo",
    /,
    *,
    data: Path | None = None,
    compare: str | None = None,
    port: Annotated[int, Parameter(validator=PORT)] = 0,
    no_browser: bool = False,
    where: DeviceOptions | None = None,
) -> int:
    """Open a page on which a model is a glass box: every number of a pass, and the sum that made it.

    Args:
        model: Model folder, demo, or the folder of a run: one that is running can be watched.
        data: File of labelled rows: the page shows the ones that the model gets most wrong first.
        compare: A second model, whose numbers are shown beside those of the first.
        port: Port to listen on; 0 takes a free one.
        no_browser: Print the address, and open nothing.
    """
    from glassbert.serve.installed import check_installed

    check_installed()
    from glassbert.interop.stored import find_stored
    from glassbert.page.run_folder import RunFolder
    from glassbert.page.server import CONFIG, PageBackend
    from glassbert.serve.http.log import Log
    from glassbert.serve.http.server import Binding, Server

    folder = model_folder(model)
    if RunFolder.of(folder) is None and not (folder / CONFIG).is_file():
        find_stored(folder)  # a folder without a model is refused before there is an address
    log = Log()
    backend = PageBackend(model, log, other=compare, data=data, place=place_of(where))

    def on_bound(address: str) -> None:
        url = f"{address}/{backend.token}/"
        print(url, flush=True)
        if not no_browser:
            webbrowser.open(url)

    server = Server(backend.app, backend, Binding(port=port), log, on_bound=on_bound)
    return server.run(ends_with_terminal=True)  # its user sits there
