"""The report as text, for a terminal or a pipe."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from glassbert.evaluation.result import Evaluation
from glassbert.metrics.answers import AnswerReport, AnswerScore, LengthScore
from glassbert.metrics.classes import ClassReport, ClassScore, MultiLabelReport
from glassbert.metrics.mistakes import Mistake
from glassbert.metrics.spans import SpanReport
from glassbert.metrics.thresholds import Acceptance
from glassbert.metrics.translation import TranslationReport
from glassbert.reports.axes import shortened
from glassbert.reports.markup import printable
from glassbert.reports.wording import counts_in_words, length_in_words, number, score_text, share

if TYPE_CHECKING:
    from rich.table import Table

# A pipe has no width; this is wide enough for every name and number.
PIPE_WIDTH = 200
MAX_CLASSES = 40
MAX_CONFUSION = 12
MAX_MISTAKES = 5
LABEL_COLUMNS = 16


def render(evaluation: Evaluation, *, width: int = PIPE_WIDTH, is_terminal: bool = False) -> str:
    """Return tables and remarks as text of ``width`` columns, with the styles of a terminal or plain."""
    return _captured(_parts(evaluation, width), width, is_terminal=is_terminal)


def table_as_text(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, width: int | None = PIPE_WIDTH
) -> str:
    """Return a table of names and right-aligned numbers as plain text; as wide as the terminal for None."""
    return _captured([_table(columns, rows)], width, is_terminal=False)


def _captured(parts: "Iterable[Table | str]", width: int | None, *, is_terminal: bool) -> str:
    from rich.console import Console  # slow to import

    console = Console(width=width, force_terminal=is_terminal, highlight=False, markup=False, emoji=False)
    with console.capture() as capture:
        for part in parts:
            console.print(part)
            console.print()
    return "\n".join(line.rstrip() for line in capture.get().rstrip("\n").split("\n"))


def _metrics(evaluation: Evaluation) -> "Table":
    rows = [(name, f"{value:.4f}") for name, value in evaluation.metrics.items()]
    if evaluation.float32 is None:
        return _table(("metric", "value"), rows)
    both = [(*row, f"{evaluation.float32[row[0]]:.4f}") for row in rows]
    return _table(("metric", "int8", "float32"), both)


def _parts(evaluation: Evaluation, width: int) -> "Iterator[Table | str]":
    report = evaluation.report
    title = f"{evaluation.task}: {evaluation.model} on {evaluation.data}, {evaluation.examples:,} examples"
    yield _one_line(title)
    yield _metrics(evaluation)
    if isinstance(report, ClassReport | MultiLabelReport):
        yield from _scores("class", report.per_class)
    if isinstance(report, ClassReport) and len(report.labels) <= MAX_CONFUSION:
        yield _confusion(report)
    if isinstance(report, SpanReport):
        yield from _scores("type", report.per_type)
        yield _span_mistakes(report)
    if isinstance(report, AnswerReport):
        yield _answers(report)
    if isinstance(report, TranslationReport):
        yield from _translations(report)
    if evaluation.acceptance:
        yield _thresholds(evaluation.acceptance)
    if evaluation.mistakes:
        worst = evaluation.mistakes[:MAX_MISTAKES]
        yield "\n".join(["worst mistakes", *(_mistake(mistake, width) for mistake in worst)])
    yield "\n".join(_remarks(evaluation))


def _scores(name: str, scores: Sequence[ClassScore]) -> "Iterator[Table | str]":
    columns = (name, "precision", "recall", "f1", "gold", "guessed")
    frequent = sorted(scores, key=lambda score: -score.support)[:MAX_CLASSES]
    shown = [score for score in scores if score in frequent]
    rows = [
        (
            score.label,
            *(number(value) for value in (score.precision, score.recall, score.f1)),
            f"{score.support:,}",
            f"{score.guessed:,}",
        )
        for score in shown
    ]
    if rows:
        yield _table(columns, rows)
    if len(shown) < len(scores):
        yield f"and {len(scores) - len(shown):,} rarer ones"


def _confusion(report: ClassReport) -> "Table":
    labels = [shortened(label, LABEL_COLUMNS) for label in report.labels]
    rows = [
        (label, *(f"{count:,}" for count in counts))
        for label, counts in zip(labels, report.confusion.tolist(), strict=True)
    ]
    return _table(("gold \\ guess", *labels), rows)


def _span_mistakes(report: SpanReport) -> str:
    mistakes = report.mistakes
    return (
        f"{share(report.right, report.support)} of the spans found; wrong label {mistakes.wrong_label:,}, "
        f"wrong bounds {mistakes.wrong_bounds:,}, missed {mistakes.missed:,}, invented {mistakes.invented:,}"
    )


def _answers(report: AnswerReport) -> "Table":
    parts: list[tuple[str, AnswerScore | LengthScore]] = [
        ("with an answer", report.has_answer),
        ("without an answer", report.no_answer),
    ]
    parts += [(length_in_words(score), score) for score in report.by_length]
    rows = [
        (name, number(part.exact_match), number(part.f1), f"{part.support:,}")
        for name, part in parts
        if part.support
    ]
    return _table(("questions", "exact match", "f1", "count"), rows)


def _translations(report: TranslationReport) -> "Iterator[Table | str]":
    rows = [(one.words, f"{one.sentences:,}", f"{one.bleu:.2f}") for one in report.by_length]
    yield _table(("words of the source", "sentences", "BLEU"), rows)
    yield f"BLEU  {report.bleu_signature}\nchrF  {report.chrf_signature}"


def _thresholds(acceptance: Acceptance) -> "Table":
    columns = (f"class (precision {acceptance.precision:g})", "threshold", "precision", "recall", "accepted")
    rows = []
    for one in acceptance.thresholds:
        found = one.threshold
        values = (found.threshold, found.precision, found.recall, found.coverage) if found else ()
        rows.append((one.label, *(number(value) for value in values)) if values else (one.label, "none"))
    return _table(columns, rows)


def _mistake(mistake: Mistake, width: int) -> str:
    score = f"{mistake.score_name} {score_text(mistake)}, {mistake.where}"
    if not (mistake.gold or mistake.guess):
        texts = [f"    {one.name:<12}{_cut(one.text[:width], width - 16)}" for one in mistake.passages]
        return "\n".join([f"  {_one_line(score)}", *texts])
    together = " | ".join(passage.text[:width] for passage in mistake.passages)
    verdict = f"{mistake.gold} taken for {mistake.guess} ({score})"
    return f"  {_one_line(verdict)}\n    {_cut(together, width - 4)}"


def _remarks(evaluation: Evaluation) -> Iterator[str]:
    if evaluation.alarm:
        yield _one_line(f"the predictions are degenerate: {evaluation.alarm}")
    if evaluation.baselines:
        yield _one_line(evaluation.baselines.sentence())
    calibration = evaluation.calibration
    if calibration:
        yield (
            f"calibration error {calibration.ece:.3f} at temperature {calibration.temperature:.3f}, "
            f"{calibration.ece_uncalibrated:.3f} without"
        )
    for seed in evaluation.seeds:
        values = ", ".join(f"{name} {value:.4f}" for name, value in seed.metrics.items())
        yield f"seed {seed.seed}: {values}"
    yield from (f"{name}: {count}" for name, count in counts_in_words(evaluation))
    yield from map(_one_line, evaluation.notes)


def _one_line(text: str) -> str:
    """Return a text as one line that holds no control characters."""
    return printable(" ".join(text.split()))


def _cut(text: str, width: int) -> str:
    return shortened(_one_line(text), width)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> "Table":
    """Return a table of names and right-aligned numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for index, column in enumerate(columns):
        table.add_column(
            _one_line(column), justify="right" if index else "left", no_wrap=True, overflow="ellipsis"
        )
    for row in rows:
        table.add_row(*map(_one_line, row))
    return table
