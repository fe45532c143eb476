"""Put statements about the Transformer to the test.

Purpose:   chapter 9 of the handbook as one script.
Data:      none; everything is drawn from seeds.
Prints:    verdicts on claims, and numbers with their intervals.
Run time:  some seconds.
"""

import glassbert as gb


def main() -> None:
    """Run three experiments and print what they decide."""
    for claim in gb.lab("saturation").claims:
        print(f"[{claim.verdict}] {claim.statement.en}")
    depth = gb.lab("depth", num_layers=12, hidden_size=32, num_seeds=3)
    for claim in depth.claims:
        print(f"[{claim.verdict}] {claim.statement.en}  {claim.found.en}")
    waves = gb.lab("waves", num_features=6)
    print(waves.claims[0].found.zh)
    print(repr(waves).split(",")[0])


if __name__ == "__main__":
    main()
