/** A beam search as a tree: a column for each step, a line from each hypothesis to what it became. */
import { t } from "../language";
import { digits } from "./format";
import { CopyPython } from "./sum";

interface Node {
  token: string;
  id: number;
  parent: number;
  log_prob: number;
  /** Its place among the hypotheses that are kept; null if it ended or was dropped. */
  place: number | null;
  is_end: boolean;
}

export interface Beam {
  steps: Node[][];
  found: { text: string; ids: number[]; score: number; log_prob: number; is_finished: boolean }[];
  python: string;
}

const WIDTH = 92;
const HEIGHT = 44;
const BOX = { width: 74, height: 34 };

interface Placed extends Node {
  step: number;
  row: number;
  from: Placed | null;
  isBest: boolean;
}

/** Lay out the hypotheses that went on or ended; of the others nothing came. */
function layOut(beam: Beam): Placed[] {
  const placed: Placed[] = [];
  let before: (Placed | undefined)[] = [];
  beam.steps.forEach((nodes, step) => {
    const now: (Placed | undefined)[] = [];
    const isLast = step === beam.steps.length - 1;
    const shown = nodes.filter((node) => node.is_end || (node.place !== null && !isLast));
    shown.forEach((node, row) => {
      const one: Placed = { ...node, step, row, from: before[node.parent] ?? null, isBest: false };
      placed.push(one);
      if (node.place !== null) now[node.place] = one;
    });
    before = now;
  });
  markBest(placed, beam);
  return placed;
}

function markBest(placed: Placed[], beam: Beam): void {
  const best = beam.found[0];
  if (!best) return;
  const last = best.is_finished ? best.ids.length : best.ids.length - 1;
  const ends = placed.filter((one) => one.step === last && (one.is_end || !best.is_finished));
  let node = ends.find((one) => Math.abs(one.log_prob - best.log_prob) < 1e-6) ?? null;
  for (; node; node = node.from) node.isBest = true;
}

export function BeamTree({ beam }: { beam: Beam }) {
  const placed = layOut(beam);
  const rows = Math.max(...placed.map((one) => one.row)) + 1;
  const size = { width: (beam.steps.length + 1) * WIDTH, height: rows * HEIGHT + 8 };
  const x = (step: number) => (step + 1) * WIDTH;
  const y = (row: number) => 4 + row * HEIGHT;
  const middle = BOX.height / 2;
  return (
    <>
      <div class="scroll tree" tabIndex={0}>
        <svg width={size.width} height={size.height} role="img" aria-label={t("tree.title")}>
          {placed.map((one) => (
            <path
              class={one.isBest ? "best" : ""}
              d={curve(
                one.from ? x(one.from.step) + BOX.width : BOX.width / 2,
                (one.from ? y(one.from.row) : y(0)) + middle,
                x(one.step),
                y(one.row) + middle,
              )}
            />
          ))}
          {placed.map((one) => (
            <g
              class={`node ${one.isBest ? "best" : ""} ${one.is_end ? "end" : ""}`}
              data-step={one.step}
              data-from={one.from?.row ?? 0}
            >
              <rect x={x(one.step)} y={y(one.row)} width={BOX.width} height={BOX.height} rx={6} />
              <text x={x(one.step) + BOX.width / 2} y={y(one.row) + 14}>
                {one.token.length > 9 ? `${one.token.slice(0, 8)}…` : one.token}
                <title>{one.token}</title>
              </text>
              <text class="score" x={x(one.step) + BOX.width / 2} y={y(one.row) + 28} data-value={one.log_prob}>
                {digits(one.log_prob)}
              </text>
            </g>
          ))}
        </svg>
      </div>
      <p class="hint">{t("tree.hint")}</p>
      <div class="scroll">
        <table class="numbers found">
          <thead>
            <tr>
              <th scope="col">{t("place.translation")}</th>
              <th scope="col">{t("tree.log_prob")}</th>
              <th scope="col">{t("tree.tokens")}</th>
              <th scope="col">{t("tree.score")}</th>
            </tr>
          </thead>
          <tbody>
            {beam.found.map((one) => (
              <tr>
                <th scope="row">{one.text}</th>
                <td data-value={one.log_prob}>{digits(one.log_prob)}</td>
                <td>{one.ids.length + (one.is_finished ? 1 : 0)}</td>
                <td data-value={one.score}>{digits(one.score)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <CopyPython code={beam.python} />
    </>
  );
}

function curve(fromX: number, fromY: number, toX: number, toY: number): string {
  const half = (fromX + toX) / 2;
  return `M${fromX},${fromY}C${half},${fromY} ${half},${toY} ${toX},${toY}`;
}
