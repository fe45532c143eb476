/** Why the model answers as it does: what each part of the text, or of the model, is worth to the answer. */
import { useEffect } from "preact/hooks";
import { t } from "../language";
import { go, param } from "../route";
import { pair, text } from "../state";
import { digits, percent } from "../ui/format";
import { CopyPython } from "../ui/sum";
import { said, type Words } from "../ui/words";
import { Progress, useWork } from "../ui/work";

const METHODS = ["gradients", "occlusion", "heads", "layers", "rollout", "lens", "tokens"] as const;

interface Part {
  name: Words | string;
  value: number;
  text?: number;
  start?: number;
  end?: number;
  note?: string;
  candidates?: { token: string; score: number }[];
}

interface Explanation {
  method: string;
  target: Words | string;
  unit: Words | string;
  score: number | null;
  probability: number | null;
  parts: Part[];
  notes: (Words | string)[];
  completeness: { gap: number; steps: number; baseline: string } | null;
  is_conclusive: boolean;
  /** What attention rollout says of the same text, for methods that judge tokens. */
  attention: Part[] | null;
  python: string;
}

export function Why() {
  const method = METHODS.find((one) => one === param("method")) ?? "gradients";
  const work = useWork<Explanation>("why");
  const asked = { text: text.value, pair: pair.value || null, method };
  useEffect(() => {
    if (asked.text) void work.run(asked);
  }, [asked.text, asked.pair, method]);
  return (
    <>
      <h1>{t("page.why")}</h1>
      <p class="lead">{t(`why.${method}`)}</p>
      <p class="tools">
        {METHODS.map((one) => (
          <button type="button" aria-pressed={one === method} onClick={() => go({ method: one })}>
            {t(`method.${one}`)}
          </button>
        ))}
      </p>
      <Progress work={work} again={asked} />
      {work.found && work.share === null && <Shown found={work.found} />}
    </>
  );
}

function Shown({ found }: { found: Explanation }) {
  return (
    <>
      {found.target && (
        <p class="total">
          {said(found.target)}
          {found.probability !== null && ` · ${percent(found.probability)}`}
          {found.score !== null && ` · ${said(found.unit)} ${digits(found.score)}`}
        </p>
      )}
      {!found.is_conclusive && (
        <p class="warning">{t("why.refused", { gap: percent(found.completeness?.gap ?? 1) })}</p>
      )}
      {found.completeness && found.is_conclusive && (
        <p class="hint">{t("why.gap", { gap: percent(found.completeness.gap), steps: found.completeness.steps })}</p>
      )}
      <Highlighted parts={found.parts} />
      {found.attention ? (
        <div class="pairs">
          <section class="worth">
            <h2>{t("why.worth")}</h2>
            <Parts parts={found.parts} />
          </section>
          <section class="looked">
            <h2>{t("why.attention")}</h2>
            <Parts parts={found.attention} />
            <p class="caution">{t("why.caution")}</p>
          </section>
        </div>
      ) : (
        <Parts parts={found.parts} />
      )}
      {found.method === "rollout" && <p class="caution">{t("why.caution")}</p>}
      {found.notes.map((note) => (
        <p class="caution">{said(note)}</p>
      ))}
      <p class="tools">
        <CopyPython code={found.python} />
      </p>
    </>
  );
}

function Parts({ parts }: { parts: Part[] }) {
  const largest = largestOf(parts);
  return (
    <ol class="bars signed">
      {parts.map((part) => (
        <li>
          <span class="label">{said(part.name)}</span>
          <span class={part.value < 0 ? "bar negative" : "bar"}>
            <span style={{ width: percent(Math.abs(part.value) / largest) }} />
          </span>
          <span class="score" data-value={part.value}>
            {digits(part.value)}
          </span>
          {(part.note || part.candidates) && (
            <small>
              {part.note ?? part.candidates?.map((one) => `${one.token} ${one.score.toFixed(3)}`).join(", ")}
            </small>
          )}
        </li>
      ))}
    </ol>
  );
}

function largestOf(parts: Part[]): number {
  return Math.max(...parts.map((part) => Math.abs(part.value)), 1e-30);
}

/** The texts with each part shaded by what it is worth. */
function Highlighted({ parts }: { parts: Part[] }) {
  const largest = largestOf(parts);
  const placed = parts.filter((part) => part.start !== undefined);
  if (placed.length === 0) return null;
  return (
    <>
      {[text.value, pair.value].map((one, number) => {
        const inside = placed.filter((part) => part.text === number).sort((a, b) => a.start! - b.start!);
        if (!one || inside.length === 0) return null;
        const characters = Array.from(one);
        const cut = (start: number, end?: number) => characters.slice(start, end).join("");
        let last = 0;
        return (
          <p class="highlighted">
            {inside.map((part) => {
              const before = cut(last, part.start);
              last = part.end!;
              const strength = { "--s": Math.abs(part.value) / largest };
              return (
                <>
                  {before}
                  <span class={part.value < 0 ? "against" : "for"} style={strength} title={digits(part.value)}>
                    {cut(part.start!, part.end)}
                  </span>
                </>
              );
            })}
            {cut(last)}
          </p>
        );
      })}
    </>
  );
}
