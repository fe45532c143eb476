/** A run as its folder shows it, while it runs or after: curves, weights that move, examples that it reads. */
import { useEffect, useState } from "preact/hooks";
import { postJson } from "../api";
import { t, type Key } from "../language";
import { go, param } from "../route";
import { attempt, meta, start, trace, type Meta } from "../state";
import { Bars } from "../ui/bars";
import { Curves, type Curve } from "../ui/curves";
import { digits, whole } from "../ui/format";
import { Predictions, type Fate, type Prediction } from "../ui/hidden";
import { CopyPython } from "../ui/sum";
import { Progress, useWork } from "../ui/work";

type Numbers = Record<string, number | null>;
type Line = Numbers & { step: number; evaluation?: Numbers };

interface Run {
  name: string;
  saved: string[];
  is_finished: boolean;
  is_gone: boolean;
  kind: string | null;
  steps: number | null;
  python: string;
}

interface Watched {
  rows: Line[];
  damaged: number;
  run: Run | null;
  isConnected: boolean;
}

/** Rows of the table; the curves show them all. */
const LATEST = 12;
const GROUPS = ["loss", "learning_rate", "grad_norm", "scores"] as const;
const NOT_DRAWN = new Set(["step", "epoch", "teaching_tokens"]);

/** Follow the log of the run. The browser reconnects by itself, and then receives everything again. */
function useRunFolder(): Watched {
  const [watched, setWatched] = useState<Watched>({ rows: [], damaged: 0, run: null, isConnected: true });
  useEffect(() => {
    const source = new EventSource("api/run/events");
    source.addEventListener("log", (event: MessageEvent<string>) => {
      const { is_new, rows, damaged } = JSON.parse(event.data) as { is_new: boolean; rows: Line[]; damaged: number };
      setWatched((last) => ({ ...last, rows: is_new ? rows : [...last.rows, ...rows], damaged }));
    });
    source.addEventListener("run", (event: MessageEvent<string>) => {
      const run = JSON.parse(event.data) as Run;
      setWatched((last) => ({ ...last, run }));
      // The first model that a run saves can be looked into at once.
      if (meta.peek()?.kind === "run" && run.saved.length > 0) void start();
    });
    source.onopen = () => setWatched((last) => ({ ...last, isConnected: true }));
    source.onerror = () => setWatched((last) => ({ ...last, isConnected: false }));
    return () => source.close();
  }, []);
  return watched;
}

export default function Train() {
  const { rows, damaged, run, isConnected } = useRunFolder();
  return (
    <>
      <h1>{t("page.train")}</h1>
      <p class="lead">{t("train.lead")}</p>
      {!isConnected && <p class="warning">{t("error.server")}</p>}
      {run && <State run={run} rows={rows} damaged={damaged} />}
      {rows.length === 0 ? <p class="hint">{t("train.no_rows")}</p> : <Log rows={rows} />}
      {run && rows.length > 0 && <CopyPython code={run.python} />}
      {run && run.saved.length > 0 && !run.is_gone && <Saved run={run} />}
    </>
  );
}

function State({ run, rows, damaged }: { run: Run; rows: Line[]; damaged: number }) {
  const step = rows.reduce((most, row) => Math.max(most, row.step), 0);
  const state = run.is_finished ? "finished" : "unfinished";
  return (
    <>
      <p class="total">
        <b>{run.name}</b> {run.kind && `· ${run.kind}`} ·{" "}
        <span data-value={step}>
          {t("train.step", { step: whole(step), steps: run.steps ? ` / ${whole(run.steps)}` : "" })}
        </span>{" "}
        · {t(`train.${state}`)}
      </p>
      {run.is_gone && (
        <p class="warning" role="alert">
          {t("train.is_gone")}
        </p>
      )}
      {damaged > 0 && <p class="warning">{t("train.damaged", { count: damaged })}</p>}
    </>
  );
}

function groupOf(name: string): (typeof GROUPS)[number] {
  if (name === "learning_rate" || name === "grad_norm") return name;
  return name.split("/")[0]!.endsWith("loss") ? "loss" : "scores";
}

function curvesOf(rows: Line[]): Curve[] {
  const found = new Map<string, Curve>();
  for (const row of rows) {
    const isEvaluation = row.evaluation !== undefined;
    for (const [name, value] of Object.entries(row.evaluation ?? row)) {
      if (NOT_DRAWN.has(name)) continue;
      const key = `${isEvaluation} ${name}`;
      if (!found.has(key)) found.set(key, { name, isEvaluation, steps: [], values: [] });
      const curve = found.get(key)!;
      curve.steps.push(row.step);
      curve.values.push(value as number | null);
    }
  }
  return [...found.values()];
}

function Log({ rows }: { rows: Line[] }) {
  const curves = curvesOf(rows);
  return (
    <>
      <div class="charts">
        {GROUPS.map((group) => {
          const own = curves.filter((curve) => groupOf(curve.name) === group);
          return own.length > 0 && <Curves title={t(`train.${group}`)} curves={own} />;
        })}
      </div>
      <h2>{t("train.latest")}</h2>
      <LogTable rows={rows.slice(-LATEST)} />
    </>
  );
}

function LogTable({ rows }: { rows: Line[] }) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row.evaluation ?? row)))].filter(
    (name) => name !== "step",
  );
  return (
    <div class="scroll">
      <table class="numbers log">
        <thead>
          <tr>
            <th scope="col">{t("train.steps")}</th>
            {names.map((name) => (
              <th scope="col">{name}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr data-step={row.step} data-held-out={row.evaluation !== undefined}>
              <th scope="row">
                {whole(row.step)}
                {row.evaluation && ` ${t("train.evaluated")}`}
              </th>
              {names.map((name) => {
                const value = (row.evaluation ?? row)[name];
                return (
                  <td data-name={name} data-value={value}>
                    {value === undefined ? "" : Number.isInteger(value) ? whole(value!) : digits(value ?? NaN)}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** What can be asked of the models that the run saved. */
function Saved({ run }: { run: Run }) {
  const newest = run.saved.at(-1)!;
  const chosen = run.saved.find((name) => name === param("saved")) ?? newest;
  return (
    <>
      <h2>{t("train.saved")}</h2>
      <p class="tools">
        <label class="picker">
          {t("train.model")}
          <select value={chosen} onChange={(event) => go({ saved: event.currentTarget.value })}>
            {run.saved.map((name) => (
              <option value={name}>{name}</option>
            ))}
          </select>
        </label>
        <button type="button" onClick={() => void lookInto(chosen)}>
          {t("train.look")}
        </button>
        <span class="hint">{meta.value?.model && t("train.shown", { model: meta.value.model })}</span>
      </p>
      {run.saved.length > 1 && <Moves run={run} />}
      {run.kind === "pretrain" && <Examples saved={chosen} key={chosen} />}
    </>
  );
}

/** Let all other pages show a model of the run. */
async function lookInto(saved: string): Promise<void> {
  const found = await attempt(postJson<Meta>("run/show", { saved }));
  if (!found) return;
  trace.value = null;
  meta.value = found;
}

interface Move {
  name: string;
  shape: number[];
  size: number;
  moved: number;
  largest: number;
  /** null: it was zero before. */
  share: number | null;
  python: string;
}

function Moves({ run }: { run: Run }) {
  const work = useWork<Move[]>("run/moves");
  const before = run.saved.find((name) => name === param("before")) ?? run.saved[0]!;
  const after = run.saved.find((name) => name === param("after")) ?? run.saved[1]!;
  useEffect(() => void work.run({ before, after }), [before, after]);
  const [name, setName] = useState<string | null>(null);
  const moves = [...(work.found ?? [])].sort((a, b) => (b.share ?? Infinity) - (a.share ?? Infinity));
  const chosen = moves.find((one) => one.name === name) ?? moves[0];
  return (
    <section class="moves">
      <h2>{t("train.moves")}</h2>
      <p class="tools">
        {(["before", "after"] as const).map((side) => (
          <label class="picker">
            {t(`train.${side}`)}
            <select
              value={side === "before" ? before : after}
              onChange={(event) => go({ [side]: event.currentTarget.value })}
            >
              {run.saved.map((one) => (
                <option value={one}>{one}</option>
              ))}
            </select>
          </label>
        ))}
      </p>
      <p class="hint">{t("train.moves_hint")}</p>
      <Progress work={work} again={{ before, after }} />
      {chosen && (
        <>
          <MovesTable moves={moves} chosen={chosen} onChoose={setName} />
          <CopyPython code={chosen.python} />
        </>
      )}
    </section>
  );
}

function MovesTable(props: { moves: Move[]; chosen: Move; onChoose: (name: string) => void }) {
  const { moves, chosen, onChoose } = props;
  const most = Math.max(...moves.map((one) => one.share ?? 0), 1e-30);
  return (
    <div class="scroll tall" tabIndex={0} role="region" aria-label={t("train.moves")}>
      <table class="numbers">
        <thead>
          <tr>
            <th scope="col">{t("anatomy.tensor")}</th>
            <th scope="col">{t("anatomy.shape")}</th>
            {(["relative", "moved", "size", "largest"] as const).map((column) => (
              <th scope="col">{t(`train.${column}` as Key)}</th>
            ))}
            <td />
          </tr>
        </thead>
        <tbody>
          {moves.map((one) => (
            <tr data-tensor={one.name} class={one === chosen ? "chosen" : ""}>
              <th scope="row">
                <button type="button" class="link" onClick={() => onChoose(one.name)}>
                  {one.name}
                </button>
              </th>
              <td>{one.shape.join(" × ")}</td>
              <td data-value={one.share}>{digits(one.share ?? (one.moved > 0 ? Infinity : NaN))}</td>
              <td data-value={one.moved}>{digits(one.moved)}</td>
              <td data-value={one.size}>{digits(one.size)}</td>
              <td data-value={one.largest}>{digits(one.largest)}</td>
              <td class="wide">
                <span class="bar">
                  <span style={{ width: `${(100 * (one.share ?? most)) / most}%` }} />
                </span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface Example {
  tokens: { token: string | null; read: string; segment: number; kind: Fate }[];
  predictions: Prediction[];
  pair: { label: string; scores: Record<string, number> } | null;
}

function Examples({ saved }: { saved: string }) {
  const work = useWork<{ step: number; examples: Example[] }>("run/examples");
  return (
    <section>
      <h2>{t("train.examples")}</h2>
      <p class="tools">
        <button type="button" onClick={() => void work.run({ saved })} disabled={work.share !== null}>
          {t("train.show_examples", { model: saved })}
        </button>
      </p>
      <Progress work={work} />
      {work.found && (
        <>
          <p class="hint">{t("train.examples_hint", { step: whole(work.found.step) })}</p>
          {work.found.examples.map((one) => (
            <OneExample example={one} />
          ))}
        </>
      )}
    </section>
  );
}

function OneExample({ example }: { example: Example }) {
  const [place, setPlace] = useState(example.predictions[0]?.place ?? 0);
  return (
    <section class="card example">
      <p class="hidden-tokens">
        {example.tokens.map((one) => (
          <span class={`${one.kind} ${one.segment ? "text-b" : "text-a"}`}>
            {one.read}
            {one.token && one.token !== one.read && <small>{one.token}</small>}
          </span>
        ))}
      </p>
      <Predictions predictions={example.predictions} tokens={example.tokens} chosen={place} onChoose={setPlace} />
      {example.pair && (
        <>
          <h3>{t("pretrain.verdict", { label: example.pair.label })}</h3>
          <Bars bars={Object.entries(example.pair.scores).map(([label, score]) => ({ label, score }))} />
        </>
      )}
    </section>
  );
}
