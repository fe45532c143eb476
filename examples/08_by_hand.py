"""Work a network and one attention weight out by hand, digit by digit.

Purpose:   the section of chapter 8 by hand as one script.
Data:      none; the demo model that comes with the package.
Prints:    a product and a sum, a gradient beside autograd's, an attention weight, what gamma multiplies.
Run time:  some seconds.
"""

import glassbert as gb


def main() -> None:
    """Write out one step of training, then numbers of a real model."""
    step = gb.lab("backprop")
    print(step.steps[0].lines[0])
    name, by_hand, by_autograd, *_ = step.tables[1].rows[6]
    print(f"d loss/d {name}: by hand {by_hand:.10f}, by autograd {by_autograd:.10f}")
    cell = gb.lab("cell", model="demo", text="The river flows into the sea.", token=2, key=3)
    print(cell.steps[0].lines[-1])
    norm = gb.lab("norm", model="demo", text="The river flows into the sea.")
    print(f"one gamma for every token: {len(set(norm.tables[0].column(5))) == 1}")


if __name__ == "__main__":
    main()
