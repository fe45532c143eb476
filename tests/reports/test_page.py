import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from glassbert.evaluation.result import Evaluation
from glassbert.metrics.classes import classification
from glassbert.metrics.thresholds import Acceptance, threshold_curve
from glassbert.reports.page import page, write_report
from helpers.report_samples import ALL, NASTY, single


class Outline(HTMLParser):
    """Collects the elements of a page and checks that each is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def ids(self) -> list[str | None]:
        return [attributes["id"] for _, attributes in self.elements if "id" in attributes]


@pytest.fixture(params=ALL)
def evaluation(request: pytest.FixtureRequest) -> Evaluation:
    return ALL[request.param]()


def test_every_kind_of_evaluation_becomes_a_page(evaluation: Evaluation) -> None:
    outline = Outline(page(evaluation))
    assert not outline.open
    assert len(set(outline.ids())) == len(outline.ids())
    for name, value in evaluation.metrics.items():
        assert name in outline.texts
        assert f"{value:.4f}" in outline.texts


def test_the_page_needs_nothing_from_elsewhere_and_runs_nothing(evaluation: Evaluation) -> None:
    outline = Outline(page(evaluation))
    names = {name for name, _ in outline.elements}
    assert not names & {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
    for _, attributes in outline.elements:
        assert not {"src", "href", "srcset", "style"} & attributes.keys()
        assert not any(name.startswith("on") for name in attributes)
    style = "".join(outline.texts)
    assert "@import" not in style
    assert "url(" not in style


def test_every_plot_has_its_title_and_description(evaluation: Evaluation) -> None:
    outline = Outline(page(evaluation))
    ids = set(outline.ids())
    for name, attributes in outline.elements:
        if name == "svg":
            assert attributes["role"] == "img"
            assert set((attributes["aria-labelledby"] or "").split()) <= ids


def test_texts_of_users_cannot_become_markup() -> None:
    labels = (NASTY, "<img src=x onerror=alert(1)>")
    nasty = replace(
        single(),
        task=NASTY,
        model=NASTY,
        data=NASTY,
        report=classification(np.array([0, 1, 1]), np.array([1, 0, 1]), labels),
        settings={NASTY: NASTY},
    )
    text = page(nasty)
    assert "<script" not in text
    assert "<img" not in text
    Outline(text)
    text.encode("utf-8")


def test_the_page_is_light_and_dark_and_fits_a_phone() -> None:
    text = page(single())
    assert "prefers-color-scheme: dark" in text
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text


def test_the_page_shows_the_parts_that_there_are() -> None:
    titles = re.findall("<h2>(.*?)</h2>", page(single()))
    assert titles == [
        "Notes",
        "Metrics",
        "Classes",
        "Confusions",
        "Calibration",
        "Abstaining",
        "Thresholds",
        "Worst mistakes",
        "Training",
        "Seeds",
        "About this evaluation",
    ]
    bare = Evaluation(task="classify", model="m", data="d", examples=600, report=single().report)
    assert re.findall("<h2>(.*?)</h2>", page(bare)) == [
        "Metrics",
        "Classes",
        "Confusions",
    ]


def test_mistakes_are_shown_in_their_order() -> None:
    text = page(single())
    assert text.index("reviews.csv:17") < text.index("reviews.csv:4") < text.index("reviews.csv:9")


def test_many_classes_are_listed_and_not_drawn() -> None:
    labels = tuple(f"class {index}" for index in range(200))
    gold = np.arange(200)
    report = classification(gold, np.roll(gold, 1), labels)
    text = page(Evaluation(task="classify", model="m", data="d", examples=200, report=report))
    assert "Confusion matrix" not in text
    assert "Most frequent confusions" in text
    assert "class 199" in text


def test_an_evaluation_of_nothing_becomes_a_page() -> None:
    empty = np.zeros(0, int)
    report = classification(empty, empty, ("a", "b"))
    text = page(Evaluation(task="classify", model="m", data="d", examples=0, report=report))
    assert "nan" not in text.lower().replace("nance", "")


def test_the_table_of_abstaining_tells_the_accuracy_at_shares_answered() -> None:
    scores, is_right = np.linspace(1, 0, 20), np.arange(20) < 10
    text = page(replace(single(), acceptance=Acceptance(0.9, (), threshold_curve(scores, is_right))))
    found = re.search('aria-label="Abstaining"><table>(.*?)</table>', text)
    assert found is not None
    cells = re.findall(r">([\d.]+%?)<", found[1])
    assert cells[:3] == ["50.0%", "1.000", "0.526"]
    assert cells[3:6] == ["75.0%", "0.667", "0.263"]
    assert cells[-3:] == ["100.0%", "0.500", "0.000"]


def test_the_mean_and_deviation_of_seeds_are_told() -> None:
    text = page(single())
    assert '<th scope="row" dir="auto">mean</th><td dir="auto">0.720</td>' in text
    assert '<th scope="row" dir="auto">standard deviation</th><td dir="auto">0.010</td>' in text


def test_the_file_is_written_whole_and_its_folder_made(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "report.html"
    write_report(path, single())
    assert path.read_text(encoding="utf-8") == page(single())
    assert [one.name for one in path.parent.iterdir()] == ["report.html"]
