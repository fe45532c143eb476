"""Cores, names, keys, the extra: small parts with their own rules."""

import os
from pathlib import Path

import pytest

import glassbert as gb
from glassbert.errors import ModelError, UserError
from glassbert.serve import installed
from glassbert.serve.cores import num_cores
from glassbert.serve.http.keys import Keys
from glassbert.serve.metrics import Counter, Histogram
from glassbert.serve.names import named_models
from glassbert.serve.service import SLICE_CHARACTERS, slices
from helpers.asgi import Client


def group(root: Path, **files: str) -> Path:
    for name, content in files.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu_dot_max": "150000 100000"}, 2),
        ({"cpu_dot_max": "50000 100000"}, 1),
        ({"cpu_dot_max": "max 100000"}, 8),
        ({"cpu__cpu_dot_cfs_quota_us": "300000", "cpu__cpu_dot_cfs_period_us": "100000"}, 3),
        ({"cpu__cpu_dot_cfs_quota_us": "-1", "cpu__cpu_dot_cfs_period_us": "100000"}, 8),
        ({"cpu_dot_max": "nonsense"}, 8),
        ({}, 8),
    ],
)
def test_cores_are_those_that_the_group_leaves(
    files: dict[str, str], cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)))
    assert num_cores(group(tmp_path, **files)) == cores


def test_the_group_of_a_service_and_those_around_it_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)))
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/system.slice/glassbert.service\n")
    limits = {"system_dot_slice__cpu_dot_max": "600000 100000"}
    assert num_cores(group(tmp_path, **limits)) == 6
    limits["system_dot_slice__glassbert_dot_service__cpu_dot_max"] = "300000 100000"
    assert num_cores(group(tmp_path, **limits)) == 3


def test_models_have_the_names_of_their_folders_or_those_given(tmp_path: Path) -> None:
    assert named_models(["/a/first", "other=/b/first"]) == {"first": "/a/first", "other": "/b/first"}
    (tmp_path / "x=y").mkdir()
    assert list(named_models([tmp_path / "x=y"])) == ["x=y"]
    with pytest.raises(ModelError, match="two models are called 'first'"):
        named_models(["/a/first", "/b/first"])
    for name in ("a/b", "a\nb", "\x1b[31m", "\udcff"):
        with pytest.raises(ModelError, match="cannot be the name"):
            named_models([f"{name}=/c"])


def test_keys_are_read_with_names_and_comments_and_short_ones_refused() -> None:
    keys = Keys.of(["# ours", "", "alice  0123456789 # hers", "9876543210"], "keys")
    assert keys.name_of("Bearer 0123456789") == "alice"
    assert keys.name_of("Bearer 9876543210") == "key-2"
    assert keys.name_of("Bearer ") is None
    for lines, message in [
        (["short"], "fewer than"),
        (["# none"], "holds no key"),
        (["a b c"], "3 words"),
        (["bob schlüssel-von-bob"], "keys:1: a key beyond ASCII"),
    ]:
        with pytest.raises(UserError, match=message):
            Keys.of(lines, "keys")


def test_the_text_format_of_prometheus() -> None:
    counter = Counter("c", "help", {"a": "x"})
    counter.add(2, a='say "hi"\n')
    assert dict(counter.samples()) == {'c{a="x"}': 0, 'c{a="say \\"hi\\"\\n"}': 2}
    histogram = Histogram("h", "help", (1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        histogram.add(value)
    assert dict(histogram.samples()) == {
        'h_bucket{le="1"}': 2,
        'h_bucket{le="2"}': 3,
        'h_bucket{le="+Inf"}': 4,
        "h_sum": 12,
        "h_count": 4,
    }


def test_without_the_extra_one_line_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "PACKAGES", ("starlette", "no_such_package"))
    with pytest.raises(UserError, match=r"no_such_package; install them: pip install 'glassbert\[serve\]'"):
        gb.serve.build_app("anything")


def test_python_builds_an_app_that_any_server_can_run(folders: dict[str, str]) -> None:
    app = gb.serve.build_app(folders["tag"], Path(folders["fill"]), threads=1, on_long="window")
    try:
        assert Client(app).post("/tag", {"inputs": "a b"}).status == 200
        assert (
            Client(app).post("/models/fill/tasks/embed", {"inputs": "a " * 90}).json()["data"][0]["windows"]
            > 1
        )
    finally:
        app.stop()


def test_the_tokeniser_takes_few_texts_at_a_time_and_less_of_long_ones() -> None:
    texts = ["a"] * 70 + ["b" * (SLICE_CHARACTERS - 1), "c", "d", "e" * 2 * SLICE_CHARACTERS, "f"]
    found = list(slices(texts))
    assert [(first, len(some)) for first, some in found] == [
        (0, 32),
        (32, 32),
        (64, 6),
        (70, 2),
        (72, 1),
        (73, 1),
        (74, 1),
    ]
    assert [text for _, some in found for text in some] == texts
