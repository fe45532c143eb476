"""Two passes side by side: of two texts, of two models, or both."""

from dataclasses import asdict, dataclass
from typing import Any

from glassbert.glassbox.trace.diff import matched
from glassbert.page.workbench import Workbench


@dataclass(frozen=True)
class Comparison:
    """The model of the page, and another one if there is one."""

    own: Workbench
    other: Workbench | None = None

    @property
    def second(self) -> Workbench:
        """The model that reads the second text."""
        return self.other or self.own

    def compare(self, text: str, pair: str | None, other_text: str, other_pair: str | None) -> dict[str, Any]:
        """Record both passes; return what each model answers and how far apart all their tensors are."""
        sides = [self.own.record(text, pair), self.second.record(other_text, other_pair)]
        first, second = self.own.trace_of(sides[0]["id"]), self.second.trace_of(sides[1]["id"])
        found = first.diff(second)
        return {
            "sides": [
                {
                    **{name: side[name] for name in ("id", "text", "pair", "tokens", "places")},
                    "model": bench.name,
                }
                for side, bench in zip(sides, (self.own, self.second), strict=True)
            ],
            "first": found.first and found.first.name,
            "distances": [asdict(one) for one in found.distances],
            "only": [list(found.only_first), list(found.only_second)],
            # Positions of the tokens that both texts have, side by side.
            "matched": [list(places) for places in matched(first.tokens, second.tokens)],
            "python": self._python(text, pair, other_text, other_pair),
        }

    def _python(self, *texts: str | None) -> str:
        """Return code that prints the distances again."""
        (text, pair, other_text, other_pair) = map(repr, texts)
        return "\n".join(
            [
                "import glassbert as gb",
                "",
                f"first = gb.load({self.own.source!r}).trace({text}, {pair})",
                f"second = gb.load({self.second.source!r}).trace({other_text}, {other_pair})",
                "for one in first.diff(second).distances:",
                "    print(one.name, one.relative)",
                "",
            ]
        )
