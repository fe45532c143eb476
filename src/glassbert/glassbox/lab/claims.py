"""The claims, and what the saved results show about them."""

from typing import Any, NamedTuple

from glassbert.glassbox.lab.catalogue import CATALOGUE
from glassbert.glassbox.lab.experiment import SAVED
from glassbert.glassbox.lab.result import Claim, read_result
from glassbert.glassbox.lab.show import VERDICTS
from glassbert.glassbox.lab.words import said
from glassbert.sentence import Language


class SavedClaim(NamedTuple):
    """A claim and the experiment that tested it."""

    experiment: str
    claim: Claim

    def to_json(self) -> dict[str, Any]:
        """Return the claim as JSON."""
        source = self.claim.source
        return {
            "experiment": self.experiment,
            "source": source if isinstance(source, str) else vars(source),
            "statement": vars(self.claim.statement),
            "found": vars(self.claim.found),
            "verdict": self.claim.verdict,
        }


def saved_claims() -> list[SavedClaim]:
    """Return the claims of all saved results, in the order of the list of experiments."""
    paths = [(name, SAVED / f"{name}.json") for name in CATALOGUE]
    results = [(name, read_result(path)) for name, path in paths if path.is_file()]
    return [SavedClaim(name, claim) for name, result in results for claim in result.claims]


def claims_as_text(found: list[SavedClaim], language: Language) -> str:
    """Return the verdict on each claim, what decided it, and in which experiment."""
    return "\n".join(
        f"[{VERDICTS[one.claim.verdict].in_language(language)}] {one.claim.statement.in_language(language)} "
        f"({said(one.claim.source, language)})\n    {one.experiment}: {one.claim.found.in_language(language)}"
        for one in found
    )
