/** One token's way through the model: a row of numbers per step, each step with its formula and shape. */
import { useMemo, useRef } from "preact/hooks";
import { language, t, type Key } from "../language";
import { go, index, param } from "../route";
import type { Tensor } from "../safetensors";
import { steps, trace, type Step, type Trace } from "../state";
import { digits } from "../ui/format";
import { useTensors } from "../ui/load";
import { Share } from "../ui/share";
import { Strip } from "../ui/strip";
import { Sum } from "../ui/sum";
import { Tokens } from "../ui/tokens";

const LEARN = 8;

export function Flow() {
  const found = trace.value;
  return found ? <Shown found={found} /> : <h1>{t("page.flow")}</h1>;
}

function Shown({ found }: { found: Trace }) {
  const side = found.decoder && param("side") === "target" ? "target" : "token";
  const reading = side === "target" ? found.decoder! : found;
  const token = index("token", reading.tokens.length);
  const rows = useTensors(`trace/${found.id}/rows?side=${side}&token=${token}`);
  const stages = useStages(found, side, token, rows);
  return (
    <>
      <h1>{t("page.flow")}</h1>
      <p class="lead">{t("flow.lead")}</p>
      <p class="tools">
        <Share />
      </p>
      {found.decoder && (
        <p class="tools">
          {(["token", "target"] as const).map((one) => (
            <button
              type="button"
              aria-pressed={one === side}
              onClick={() => go({ side: one, token: null, cell: null })}
            >
              {t(`side.${one}`)}
            </button>
          ))}
        </p>
      )}
      <Tokens
        tokens={reading.tokens}
        ids={reading.ids}
        chosen={token}
        onChoose={(chosen) => go({ token: chosen, cell: null })}
      />
      <div class="split long">
        <div class="stages" aria-busy={rows === null}>
          {stages}
        </div>
        <aside>{<Chosen />}</aside>
      </div>
    </>
  );
}

/** The steps with the row of a token; until it is there, those of the last one stay in place, unseen. */
function useStages(found: Trace, side: string, token: number, rows: Map<string, Tensor> | null) {
  const last = useRef<View>({ found, side, token, rows });
  if (rows || last.current.found !== found) last.current = { found, side, token, rows: rows ?? last.current.rows };
  const shown = last.current;
  // Drawing hundreds of strips takes long: once for a token, and not again when only a number was chosen.
  return useMemo(() => stagesOf(shown), [found, shown.side, shown.token, shown.rows, language.value]);
}

interface View {
  found: Trace;
  side: string;
  token: number;
  rows: Map<string, Tensor> | null;
}

function stagesOf({ found, side, token, rows }: View) {
  const listed = found.graph.filter((step) => placeOf(step, 0, side, token) !== null);
  return grouped(listed).map(([title, group]) => (
    <section>
      <h2>{title}</h2>
      {group.map((step) => (
        <Stage
          step={step}
          row={rows?.get(step.name)}
          onChoose={(column) => go({ cell: `${step.name}@${placeOf(step, column, side, token)!.join(",")}` })}
        />
      ))}
    </section>
  ));
}

/** Return where a number of a token's row is in the tensor of a step; null if the step has no row for the token. */
function placeOf(step: Step, column: number, side: string, token: number): number[] | null {
  const [first, , queries] = step.dims;
  if (step.dims.length === 4) {
    const keys = step.shape[3]!;
    // One head behind the other.
    const isShown = step.name.endsWith(".probs") && queries === side;
    return isShown ? [0, Math.floor(column / keys), token, column % keys] : null;
  }
  if (step.dims.length !== 2) return null;
  if (first === side) return [token, column];
  if (side !== "token") return null;
  // What a head says of the whole text it reads from the first token.
  if (first === "text") return token === 0 ? [0, column] : null;
  const predicted = trace.value!.places.filter((one) => one.kind === "mlm").findIndex((one) => one.token === token);
  return first === "predicted" && predicted >= 0 ? [predicted, column] : null;
}

function Stage(props: { step: Step; row: Tensor | undefined; onChoose: (column: number) => void }) {
  const { step, row, onChoose: pick } = props;
  const width = row?.values.length ?? 0;
  return (
    <div class="stage" data-step={step.name}>
      <div class="what">
        <b>{t(labelOf(step.name))}</b> <code>{step.name}</code> <span class="shape">{step.shape.join(" × ")}</span>
        <code class="formula">{step.formula}</code>
      </div>
      {row && <Strip values={row.values} title={step.name} onChoose={pick} />}
      {row && (
        <ol class="digits">
          {Array.from(row.values.slice(0, LEARN), (value, column) => (
            <li>
              <button type="button" class="number" data-value={value} onClick={() => pick(column)}>
                {digits(value)}
              </button>
            </li>
          ))}
          {width > LEARN && <li>{t("flow.more", { count: width - LEARN })}</li>}
        </ol>
      )}
    </div>
  );
}

function Chosen() {
  const [name, place] = (param("cell") ?? "").split("@");
  if (!name || !place || !steps.value.has(name)) return <p class="hint">{t("flow.hint")}</p>;
  return (
    <Sum
      name={name}
      index={place.split(",").map(Number)}
      onFollow={(to, at) => go({ cell: `${to}@${at.join(",")}` })}
    />
  );
}

function grouped(list: Step[]): [string, Step[]][] {
  const groups = new Map<string, Step[]>();
  for (const step of list) {
    const block = /^(enc|dec)\.(\d+)\./.exec(step.name);
    const embeds = /^(dec\.)?emb\./.test(step.name);
    const title = block ? t("flow.block", { number: block[2]! }) : embeds ? t("flow.embeddings") : t("flow.heads");
    groups.set(title, [...(groups.get(title) ?? []), step]);
  }
  return [...groups];
}

/** Return the message key of a step's kind, from the end of its name. */
function labelOf(name: string): Key {
  const kind = name
    .replace(/^(enc|dec)\.\d+\./, "block.")
    .replace(/^dec\.emb\./, "emb.")
    .replace(".cross.", ".attn.");
  const known: Partial<Record<string, Key>> = {
    "emb.token": "step.token",
    "emb.segment": "step.segment",
    "emb.position": "step.position",
    "emb.sum": "step.embedding_sum",
    "emb.norm": "step.norm",
    "block.attn.q": "step.q",
    "block.attn.k": "step.k",
    "block.attn.v": "step.v",
    "block.attn.probs": "step.probs",
    "block.attn.context": "step.context",
    "block.attn.proj": "step.proj",
    "block.attn.sum": "step.residual",
    "block.attn.norm": "step.norm",
    "block.mlp.pre": "step.pre",
    "block.mlp.act": "step.act",
    "block.mlp.out": "step.mlp_out",
    "block.mlp.sum": "step.residual",
    "block.mlp.norm": "step.norm",
    "head.pooler.dense": "step.pre",
    "head.pooled": "step.pooled",
    "head.mlm.dense": "step.pre",
    "head.mlm.act": "step.act",
    "head.mlm.norm": "step.norm",
    "head.mlm.logits": "step.mlm_logits",
    "head.nsp.logits": "step.nsp_logits",
    "head.labels.logits": "step.label_logits",
    "head.span.logits": "step.span_logits",
    "head.logits": "step.mlm_logits",
  };
  return known[kind] ?? "step.other";
}
