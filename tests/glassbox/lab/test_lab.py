import json
import runpy
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

import glassbert as gb
from glassbert.cli.main import main
from glassbert.errors import DataError, UserError
from glassbert.glassbox.lab import experiment
from glassbert.glassbox.lab.catalogue import CATALOGUE
from glassbert.glassbox.lab.estimate import Estimate
from glassbert.glassbox.lab.experiment import find
from glassbert.glassbox.lab.result import read_result
from glassbert.glassbox.lab.words import said
from glassbert.sentence import Language


def test_the_list_names_every_experiment_and_its_question(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(CATALOGUE)
    assert main(["lab", "--lang", "zh", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert all(row["question"]["en"] and row["question"]["zh"] for row in rows)


@pytest.mark.parametrize("name", CATALOGUE)
def test_an_experiment_says_what_theory_expects_in_both_languages_and_has_documented_settings(
    name: str,
) -> None:
    found = find(name)
    assert len(found.theory.en) > 20
    assert any("\u4e00" <= character <= "\u9fff" for character in found.theory.zh)
    assert found.settings.__doc__
    assert set(found.large) <= set(found.settings.__dataclass_fields__)
    found.settings()
    found.settings(
        **{name: tuple(one) if isinstance(one, list) else one for name, one in found.large.items()}
    )


@pytest.mark.parametrize(
    ("typed", "hint"), [("saturatoin", "did you mean saturation?"), ("zzz", "there are linear")]
)
def test_an_unknown_experiment_ends_with_the_nearest_name(
    typed: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", typed]) == 2
    assert f"no experiment {typed!r}; {hint}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "scales"], "expected key=value"),
        (["--set", "scales=[]"], "scales is empty"),
        (["--set", "scales=[5000]"], "of at least -1,000 and at most 1,000"),
        (["--set", "scales=abc"], "expected a list"),
        (["--set", "size=huge"], "expected one of small, large"),
        (["--saved", "--set", "scales=[1]"], "leave out --set"),
    ],
)
def test_a_setting_out_of_range_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", "saturation", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_result_can_be_saved_read_and_shown_again(tmp_path: Path) -> None:
    result = gb.lab("waves", num_features=4, num_positions=20)
    result.save(tmp_path / "waves.json")
    again = read_result(tmp_path / "waves.json")
    assert again == result
    assert str(again) == str(result)
    assert again._repr_html_() == result._repr_html_()
    assert repr(result).startswith("Result('waves', claims: 1 holds")


def test_text_names_the_settings_that_were_changed() -> None:
    assert (
        "Settings: num_features=4, num_positions=20"
        in gb.lab("waves", num_features=4, num_positions=20).text()
    )
    assert "Settings" not in gb.lab("waves").text()
    assert "设置: scales=[1.0]" in gb.lab("saturation", scales=[1]).text("zh")


def test_a_file_that_is_no_result_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"a": 1}')
    with pytest.raises(DataError, match="not a result of the lab"):
        read_result(tmp_path / "other.json")


def test_json_has_everything_in_both_languages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "saturation", "--set", "scales=[1, 10]", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {
        "name",
        "question",
        "theory",
        "settings",
        "seeds",
        "steps",
        "tables",
        "plots",
        "claims",
        "meaning",
    } <= set(found)
    for text in (found["question"], found["theory"], found["meaning"], found["claims"][0]["found"]):
        assert set(text) == {"en", "zh"}
    assert found["claims"][0]["verdict"] in ("holds", "does not hold", "unclear")


def test_a_page_and_a_plot_are_written_whole_and_never_over_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, plot, saved = tmp_path / "page.html", tmp_path / "plot.svg", tmp_path / "result.json"
    files = ["--html", str(page), "--plot", str(plot), "--out", str(saved)]
    assert main(["lab", "saturation", "--lang", "zh", *files]) == 0
    assert '<html lang="zh">' in page.read_text(encoding="utf-8")
    assert "饱和" in page.read_text(encoding="utf-8")
    ElementTree.fromstring(plot.read_text(encoding="utf-8"))
    assert read_result(saved).name == "saturation"
    capsys.readouterr()
    assert main(["lab", "saturation", *files]) == 2
    assert "exists; name another file" in capsys.readouterr().err
    assert main(["lab", "waves", *files, "--force"]) == 0
    assert read_result(saved).name == "waves"
    assert main(["lab", "linear", "--plot", str(tmp_path / "new.svg")]) == 2
    assert "has no plot" in capsys.readouterr().err
    assert not (tmp_path / "new.svg").exists()


@pytest.mark.parametrize("language", ["en", "zh"])
def test_plots_of_one_file_have_their_titles_and_do_not_overlap(language: Language) -> None:
    result = gb.saved_result("heads")
    drawing = ElementTree.fromstring(result.svg(language))
    titles = [one.text for one in drawing if one.tag.endswith("text")]
    assert titles == [said(plot.title, language) for plot in result.plots]
    places = [
        (float(one.attrib["y"]), float(one.attrib["height"]))
        for one in drawing
        if "y" in one.attrib and one.tag.endswith("svg")
    ]
    assert len(places) == len(titles)
    assert all(y + height < below for (y, height), (below, _) in pairwise(places))
    assert sum(places[-1]) <= float(drawing.attrib["height"])


def test_saved_results_are_listed_by_their_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from glassbert.glassbox.lab import claims

    for module in (experiment, claims):
        monkeypatch.setattr(module, "SAVED", tmp_path)
    assert main(["lab", "waves", "--saved"]) == 2
    assert "no saved result of waves; run it" in capsys.readouterr().err
    gb.lab("waves", num_features=4).save(tmp_path / "waves.json")
    assert main(["lab", "waves", "--saved"]) == 0
    assert "PE(pos+k) is a linear function" in capsys.readouterr().out
    assert main(["lab", "--claims"]) == 0
    assert capsys.readouterr().out.startswith(
        "[holds] PE(pos+k) is a linear function of PE(pos). (notes 5.4)"
    )


def test_an_interval_is_students_and_decides_only_when_it_excludes_the_limit() -> None:
    estimate = Estimate.of([1.0, 2.0, 3.0])
    assert (estimate.low, estimate.high) == pytest.approx((2 - 2.484, 2 + 2.484), abs=1e-3)
    assert (estimate.above(-1), estimate.above(0), estimate.above(5)) == ("holds", "unclear", "does not hold")
    assert (estimate.below(5), estimate.below(2), estimate.below(-1)) == ("holds", "unclear", "does not hold")
    assert (estimate.about(2, 3), estimate.about(2, 1), estimate.about(9, 1)) == (
        "holds",
        "unclear",
        "does not hold",
    )


def test_an_unknown_size_is_refused() -> None:
    with pytest.raises(UserError, match="expected one of small, large"):
        gb.lab("waves", size="big")  # type: ignore[arg-type]


QUICK = {"num_seeds": 2, "num_steps": 1, "num_sequences": 2, "num_repeats": 1, "num_layers": 2}
"""Settings that decide nothing that a claim says."""
SAVED_NAMES = sorted(path.stem for path in experiment.SAVED.glob("*.json"))


@pytest.mark.parametrize("name", SAVED_NAMES)
def test_a_saved_result_states_the_claims_that_the_code_states(name: str) -> None:
    saved = gb.saved_result(name)
    quick = {key: value for key, value in QUICK.items() if key in saved.settings}
    settings = saved.settings | quick
    if "lengths" in settings:
        settings["lengths"] = [2, 3]
    stated = gb.lab(name, **settings).claims
    assert [(one.source, one.statement) for one in saved.claims] == [
        (one.source, one.statement) for one in stated
    ]


@pytest.mark.parametrize("name", SAVED_NAMES)
def test_a_saved_result_can_be_replaced_by_a_newer_one(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.json"
    path.write_bytes((experiment.SAVED / path.name).read_bytes())
    gb.saved_result(name).save(path, overwrite=True)
    assert read_result(path) == gb.saved_result(name)


def test_experiments_and_claims_are_listed_in_python_as_on_the_command_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["lab", "--lang", "zh"])
    assert [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()] == [
        list(pair) for pair in gb.experiments("zh").items()
    ]
    main(["lab", "--claims", "--json"])
    assert json.loads(capsys.readouterr().out) == [one.to_json() for one in gb.saved_claims()]


def test_results_for_the_package_go_into_both_chapters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from glassbert.glassbox.lab import claims

    script = runpy.run_path(str(Path(__file__).parents[3] / "docs" / "make_lab.py"))
    for module in (experiment, claims):
        monkeypatch.setattr(module, "SAVED", tmp_path)
    chapters = {language: tmp_path / f"{language}.md" for language in ("en", "zh")}
    for path in chapters.values():
        path.write_text("```console\n$ glassbert lab --claims\nold\n```\nEnd.\n", encoding="utf-8")
    script["CHAPTERS"].update(chapters)
    monkeypatch.setitem(find("waves").large, "num_features", 4)
    for arguments in (["waves"], ["--large", "waves"]):
        script["main"](arguments)
    assert gb.saved_result("waves").settings["num_features"] == 4
    assert "[holds] PE(pos+k) is a linear function" in chapters["en"].read_text(encoding="utf-8")
    assert "[成立]" in chapters["zh"].read_text(encoding="utf-8")
    assert all(path.read_text(encoding="utf-8").endswith("```\nEnd.\n") for path in chapters.values())
