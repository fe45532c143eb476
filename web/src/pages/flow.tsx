/** One token's way through the model: a row of numbers per step, each step with its formula and shape. */
import { t, type Key } from "../language";
import { go, index, param } from "../route";
import type { Tensor } from "../safetensors";
import { steps, trace, type Step } from "../state";
import { digits } from "../ui/format";
import { useTensors } from "../ui/load";
import { Share } from "../ui/share";
import { Strip } from "../ui/strip";
import { Sum } from "../ui/sum";
import { Tokens } from "../ui/tokens";

const LEARN = 8;

export function Flow() {
  const found = trace.value;
  const side = found?.decoder && param("side") === "target" ? "target" : "token";
  const reading = side === "target" ? found?.decoder : found;
  const token = index("token", reading?.tokens.length ?? 0);
  const rows = useTensors(found && `trace/${found.id}/rows?side=${side}&token=${token}`);
  if (!found || !reading) return <h1>{t("page.flow")}</h1>;
  const groups = grouped(found.graph.filter((step) => step.dims[0] === side && step.dims.length === 2));
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
      <div class="split">
        <div class="stages">
          {groups.map(([title, group]) => (
            <section>
              <h2>{title}</h2>
              {group.map((step) => (
                <Stage step={step} row={rows?.get(step.name)} token={token} />
              ))}
            </section>
          ))}
        </div>
        <aside>{<Chosen />}</aside>
      </div>
    </>
  );
}

function Stage({ step, row, token }: { step: Step; row: Tensor | undefined; token: number }) {
  const width = step.shape[1]!;
  const pick = (column: number) => go({ cell: `${step.name}@${token},${column}` });
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
    "block.attn.context": "step.context",
    "block.attn.proj": "step.proj",
    "block.attn.sum": "step.residual",
    "block.attn.norm": "step.norm",
    "block.mlp.pre": "step.pre",
    "block.mlp.act": "step.act",
    "block.mlp.out": "step.mlp_out",
    "block.mlp.sum": "step.residual",
    "block.mlp.norm": "step.norm",
  };
  return known[kind] ?? "step.other";
}
