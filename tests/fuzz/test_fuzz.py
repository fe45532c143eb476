"""What the fuzzer has found stays mended; and a few new cases at every door. `make fuzz` takes its time."""

from pathlib import Path

import pytest
from starlette.routing import Route

from fuzz import apps
from fuzz.__main__ import CORPUS, fuzz
from fuzz.doors import DOORS, Door
from fuzz.findings import Finding, attempt
from glassbert.page.app import Page

BY_SLUG = {door.slug: door for door in DOORS}
NUM_CASES = 5


@pytest.mark.parametrize("path", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_a_finding_does_not_come_back(path: Path) -> None:
    attempt(BY_SLUG[path.name.rpartition(".")[0]], path.read_bytes())


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.slug)
def test_hostile_bytes_end_in_success_or_in_an_error_of_the_user(door: Door) -> None:
    assert fuzz(door, 1, NUM_CASES) is None


def test_every_address_of_the_page_is_attacked() -> None:
    app = Page(token=apps.TOKEN)
    assert set(apps.QUESTIONS) == set(app._posts)
    asked = {route.path for route in app._router.routes if isinstance(route, Route)}
    assert {f"/{{token}}/api/{path}" for path in apps.QUERIES} == asked - {"/{token}/{path:path}"}


def test_the_fuzzer_finds_what_it_should(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(data: bytes, _: Path) -> None:
        if b"\xff" in data:
            raise KeyError("a bug")

    door = Door("broken", BY_SLUG["text-in--txt"].cases, broken)
    found = fuzz(door, 0, 300)
    assert found is not None
    assert found[0].count(b"\xff") == 1, "and makes it small"
    monkeypatch.setattr("fuzz.findings.MAX_SECONDS", -1.0)
    with pytest.raises(Finding, match=r"text in .txt: \d\.\d s for 1 bytes"):
        attempt(Door("text in .txt", door.cases, broken), b"a")
