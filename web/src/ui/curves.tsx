/** Curves over the steps of a run, on a canvas, with their last values as text and all of them as a table. */
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { t } from "../language";
import { theme } from "../theme";
import { digits } from "./format";

export interface Curve {
  name: string;
  /** Measured on held-out text or rows: drawn as points with a line. */
  isEvaluation: boolean;
  steps: number[];
  values: (number | null)[];
}

const HEIGHT = 220;
const NUM_COLOURS = 6;

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Put curves with steps of their own onto one axis of steps. */
function aligned(curves: Curve[]): uPlot.AlignedData {
  const steps = [...new Set(curves.flatMap((curve) => curve.steps))].sort((a, b) => a - b);
  const columns = curves.map((curve) => {
    const at = new Map(curve.steps.map((step, place) => [step, curve.values[place]]));
    return steps.map((step) => at.get(step) ?? null);
  });
  return [steps, ...columns];
}

function options(curves: Curve[], width: number): uPlot.Options {
  const ink = colour("--quiet");
  const rule = colour("--rule");
  const axis = { stroke: ink, grid: { stroke: rule, width: 1 }, ticks: { stroke: rule, width: 1 } };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    scales: { x: { time: false } },
    axes: [axis, { ...axis, size: 64, values: (_, ticks) => ticks.map(short) }],
    series: [
      {},
      ...curves.map((curve, place) => ({
        label: curve.name,
        stroke: colour(`--c${place % NUM_COLOURS}`),
        width: 1.5,
        spanGaps: true,
        points: {
          show: curve.isEvaluation || curve.steps.length < 40,
          size: curve.isEvaluation ? 7 : 4,
          fill: colour("--card"),
        },
        ...(curve.isEvaluation ? { dash: [6, 4] } : {}),
      })),
    ],
  };
}

export function Curves({ title, curves }: { title: string; curves: Curve[] }) {
  const place = useRef<HTMLDivElement>(null);
  const points = curves.reduce((sum, curve) => sum + curve.steps.length, 0);
  useEffect(() => {
    const box = place.current!;
    const plot = new uPlot(options(curves, box.clientWidth), aligned(curves), box);
    const observer = new ResizeObserver(() => plot.setSize({ width: box.clientWidth, height: HEIGHT }));
    observer.observe(box);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [theme.value, points, curves.map((curve) => curve.name).join()]);
  return (
    <figure class="curves card" data-chart={title}>
      <figcaption>{title}</figcaption>
      <div class="plot" ref={place} role="img" aria-label={`${title}. ${t("train.curves_as_table")}`} />
      <ul class="keys">
        {curves.map((curve, number) => (
          <li data-curve={curve.name} data-held-out={curve.isEvaluation}>
            <span class="key" style={{ background: `var(--c${number % NUM_COLOURS})` }} />
            {curve.isEvaluation ? t("train.held_out", { name: curve.name }) : curve.name}{" "}
            <b data-value={curve.values.at(-1)}>{digits(curve.values.at(-1) ?? NaN)}</b>
          </li>
        ))}
      </ul>
    </figure>
  );
}

/** Write the number of a tick so that it fits beside its axis. */
function short(tick: number): string {
  const plain = String(Number(tick.toPrecision(3)));
  return plain.length <= 6 ? plain : tick.toExponential().replace(/(\.\d{2})\d*e/, "$1e");
}
