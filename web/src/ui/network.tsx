/** The worked network as a drawing: what the newest line computes is lit, and every number found so far is shown. */
import { t } from "../language";

interface Spot {
  x: number;
  y: number;
}

const COLUMNS = { x: 70, hidden: 290, output: 510 } as const;
const HEIGHTS = [60, 190] as const;
const EDGES: { name: string; from: string; to: string }[] = [
  { name: "w1", from: "x1", to: "hidden1" },
  { name: "w2", from: "x2", to: "hidden1" },
  { name: "w3", from: "x1", to: "hidden2" },
  { name: "w4", from: "x2", to: "hidden2" },
  { name: "w5", from: "hidden1", to: "output1" },
  { name: "w6", from: "hidden2", to: "output1" },
  { name: "w7", from: "hidden1", to: "output2" },
  { name: "w8", from: "hidden2", to: "output2" },
];
const NODES = ["x1", "x2", "hidden1", "hidden2", "output1", "output2"];

function spotOf(node: string): Spot {
  const kind = node.slice(0, -1) as keyof typeof COLUMNS;
  return { x: COLUMNS[kind], y: HEIGHTS[Number(node.at(-1)) - 1]! };
}

/** What a line is about, and the number that it ends with: `d loss/d w5 = ... = 0.0821670406`. */
function readLine(line: string): { subject: string; isSlope: boolean; value: string; parts: Set<string> } {
  const sides = line.split(" = ");
  const left = sides[0] ?? "";
  const names = (text: string) => text.match(/\b(?:x|w|hidden|output|b)\d\b|\bloss\b/g) ?? [];
  const isSlope = left.startsWith("d ");
  const subject = names(left).at(-1) ?? "";
  return { subject, isSlope, value: sides.at(-1) ?? "", parts: new Set([...names(left), ...names(sides[1] ?? "")]) };
}

export function Network({ lines }: { lines: string[] }) {
  const read = lines.map(readLine);
  const newest = read.at(-1);
  if (!newest) return null;
  const values = new Map<string, string>();
  const slopes = new Map<string, string>();
  for (const one of read) (one.isSlope ? slopes : values).set(one.subject, Number(one.value).toFixed(4));
  const lit = (name: string) => (newest.parts.has(name) ? "lit" : "");
  return (
    <svg class="network" viewBox="0 0 640 250" role="img" aria-label={t("backprop.drawing", { line: lines.at(-1)! })}>
      {EDGES.map(({ name, from, to }) => {
        const [a, b] = [spotOf(from), spotOf(to)];
        const share = (Number(name.slice(1)) - 1) % 4 === 0 || (Number(name.slice(1)) - 1) % 4 === 3 ? 0.5 : 0.28;
        const x = a.x + (b.x - a.x) * share;
        const y = a.y + (b.y - a.y) * share;
        return (
          <g class={lit(name)}>
            <line x1={a.x} y1={a.y} x2={b.x} y2={b.y} />
            <text x={x} y={y - 6}>
              {name}
              {values.has(name) && ` ${values.get(name)}`}
            </text>
            {slopes.has(name) && (
              <text class="slope" x={x} y={y + 12}>
                ∂ {slopes.get(name)}
              </text>
            )}
          </g>
        );
      })}
      {NODES.map((node) => {
        const { x, y } = spotOf(node);
        return (
          <g class={lit(node)}>
            <circle cx={x} cy={y} r={29} />
            <text x={x} y={y - 2}>
              {node.replace("hidden", "h").replace("output", "o")}
            </text>
            {values.has(node) && (
              <text x={x} y={y + 14}>
                {values.get(node)}
              </text>
            )}
            {slopes.has(node) && (
              <text class="slope" x={x} y={y + 42}>
                ∂ {slopes.get(node)}
              </text>
            )}
          </g>
        );
      })}
      <g class={lit("loss")}>
        <text x={600} y={122}>
          loss
        </text>
        {values.has("loss") && (
          <text x={600} y={140}>
            {values.get("loss")}
          </text>
        )}
      </g>
    </svg>
  );
}
