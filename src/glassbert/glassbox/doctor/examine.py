"""`glassbert.doctor`: every check on a model, a verdict each."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from glassbert.arguments import checked
from glassbert.errors import UserError
from glassbert.glassbox.doctor.activity import check_activity
from glassbert.glassbox.doctor.agreement import check_agreement
from glassbert.glassbox.doctor.folder import visit_folder, visit_loaded
from glassbert.glassbox.doctor.movement import check_movement
from glassbert.glassbox.doctor.probes import probe_for
from glassbert.glassbox.doctor.rows import check_data
from glassbert.glassbox.doctor.verdict import Diagnosis, Verdict
from glassbert.inference.devices import Device, PrecisionName
from glassbert.inference.loading import load
from glassbert.inference.model import Model
from glassbert.inference.translator import Translator
from glassbert.model.torch_state import with_own_torch_state
from glassbert.progress import each
from glassbert.sentence import Sentence, said_by


@checked
@with_own_torch_state
def doctor(
    model: str | Path | Model | Translator,
    data: str | Path | None = None,
    base: str | Path | Model | Translator | None = None,
    *,
    device: Device = "auto",
    precision: PrecisionName = "float32",
) -> Diagnosis:
    """Return what is wrong with a model: its tensors, tokenizer, units, heads, answers, labels, scores.

    A folder that is too damaged to load gets the verdicts that its files allow.

    Args:
        model: A loaded model, or what `glassbert.load` takes.
        data: A file of rows of the model's task, labelled or not; for a model without a task, of text.
        base: The model that it was trained from, to see what moved.
        device: Where a model that is given by name runs.
        precision: In which it computes.
    """
    if isinstance(model, str | Path):
        visit = visit_folder(model, {"device": device, "precision": precision})
        name = str(model)
    else:
        visit, name = visit_loaded(model), str(model.folder or "model")
    verdicts, loaded = visit.verdicts, visit.loaded
    if loaded is None:
        waiting = [what for what, given in (("data", data), ("base", base)) if given is not None]
        reason = Sentence("the model cannot be loaded")
        verdicts += [Verdict(what, "skipped", reason) for what in ("answers", *waiting)]
        return Diagnosis(name, tuple(verdicts))
    probe = probe_for(loaded)
    checks: list[Callable[[], Iterable[Verdict]]] = [
        lambda: check_activity(loaded, probe),
        lambda: check_agreement(loaded, probe),
    ]
    if data is not None:
        checks.append(lambda: check_data(loaded, data))
    if base is not None:
        checks.append(lambda: _movement(loaded, base))
    for check in each(checks):
        verdicts += check()
    return Diagnosis(name, tuple(verdicts))


def _movement(model: Model | Translator, base: str | Path | Model | Translator) -> Iterator[Verdict]:
    """Yield the verdicts on what moved; a base that cannot be loaded is one too."""
    try:
        yield from check_movement(model, load(base) if isinstance(base, str | Path) else base)
    except UserError as error:
        yield Verdict("base", "fault", said_by(error))
