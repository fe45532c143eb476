/** All heads at a glance, one head, and one cell down to the products of its dimensions. */
import { useEffect, useRef, useState } from "preact/hooks";
import { getJson } from "../api";
import { t, type Key } from "../language";
import { go, index, param } from "../route";
import type { Tensor } from "../safetensors";
import { attempt, numHeads, steps, trace } from "../state";
import { theme } from "../theme";
import { paint } from "../ui/colours";
import { useTensors } from "../ui/load";
import { Matrix } from "../ui/matrix";
import { Picker } from "../ui/picker";
import { Sum } from "../ui/sum";
import { said, type Words } from "../ui/words";

const STAGES = ["raw", "scores", "masked", "probs"] as const;
/** Who asks and who is looked at: the text itself, the translation so far, or the text from the translation. */
const SCOPES = ["enc.attn", "dec.attn", "dec.cross"] as const;
type Scope = (typeof SCOPES)[number];

function stepName(scope: Scope, layer: number, stage: string): string {
  return scope.replace(".", `.${layer}.`) + `.${stage}`;
}

export function Attention() {
  const found = trace.value;
  const scopes = SCOPES.filter((one) => steps.value.has(stepName(one, 0, "probs")));
  const scope = scopes.find((one) => one === param("scope")) ?? "enc.attn";
  const layers = found?.graph.filter((step) => isProbs(step.name, scope)).length ?? 0;
  const layer = index("layer", layers);
  const head = index("head", numHeads.value);
  const stage = STAGES.find((one) => one === param("stage")) ?? "probs";
  const name = stepName(scope, layer, stage);
  const tensors = useTensors(found && steps.value.has(name) ? tensorAddress(found.id, name, `0,${head}`) : null);
  const byWords = scope === "enc.attn" && stage === "probs" && param("words") === "1";
  const words = useWords(byWords && found ? found.id : null);
  if (!found) return <h1>{t("page.attention")}</h1>;
  const queries = scope === "enc.attn" ? found.tokens : (found.decoder?.tokens ?? []);
  const keys = scope === "dec.attn" ? queries : found.tokens;
  const stages = STAGES.filter((one) => steps.value.has(stepName(scope, layer, one)));
  const query = index("query", queries.length, -1);
  const key = index("key", keys.length, -1);
  const matrix = tensors?.get(name);
  return (
    <>
      <h1>{t("page.attention")}</h1>
      <p class="lead">{t("attention.lead")}</p>
      <div class="heads">
        <Thumbnails id={found.id} scope={scope} layer={layer} head={head} />
        <div>
          <p class="tools">
            {scopes.length > 1 &&
              scopes.map((one) => (
                <button
                  type="button"
                  aria-pressed={one === scope}
                  onClick={() => go({ scope: one, query: null, key: null })}
                >
                  {t(`attention.${one}`)}
                </button>
              ))}
            <Picker name="layer" label={t("attention.layer")} count={layers} value={layer} />
            <Picker name="head" label={t("attention.head")} count={numHeads.value} value={head} />
            {stages.map((one) => (
              <button type="button" aria-pressed={one === stage} onClick={() => go({ stage: one })}>
                {t(`attention.${one}` as Key)}
              </button>
            ))}
            {scope === "enc.attn" && stage === "probs" && (
              <button type="button" aria-pressed={byWords} onClick={() => go({ words: byWords ? null : 1 })}>
                {t("attention.words")}
              </button>
            )}
          </p>
          {byWords && <p class="hint">{t("attention.words_hint")}</p>}
          {words?.notes.map((note) => (
            <p class="warning">{said(note)}</p>
          ))}
          {matrix && byWords && words && <ByWords matrix={matrix} words={words.words} title={name} />}
          {matrix && !byWords && (
            <Matrix
              values={matrix.values}
              rows={queries.length}
              columns={keys.length}
              rowLabel={(row) => queries[row] ?? ""}
              columnLabel={(column) => keys[column] ?? ""}
              title={name}
              chosen={query >= 0 && key >= 0 ? { row: query, column: key } : null}
              onChoose={(row, column) => go({ query: row, key: column })}
            />
          )}
          <p class="caution">{t("attention.caution")}</p>
        </div>
      </div>
      <h2>{t("attention.cell")}</h2>
      <div class="chain">
        {query >= 0 && key >= 0 && param("key") !== null ? (
          stages.map((one) => <Sum name={stepName(scope, layer, one)} index={[0, head, query, key]} />)
        ) : (
          <p class="hint">{t("attention.hint")}</p>
        )}
      </div>
    </>
  );
}

interface Word {
  name: string;
  tokens: number[];
}

interface WholeWords {
  words: Word[];
  notes: (Words | string)[];
}

/** Ask which tokens make up the words of a text. */
function useWords(id: string | null): WholeWords | null {
  const [found, setFound] = useState<{ id: string; words: WholeWords } | null>(null);
  useEffect(() => {
    if (!id) return;
    const controller = new AbortController();
    attempt(getJson<WholeWords>(`trace/${id}/words`, controller.signal)).then((words) => {
      if (words && !controller.signal.aborted) setFound({ id, words });
    });
    return () => controller.abort();
  }, [id]);
  return found && found.id === id ? found.words : null;
}

/** Shares between words: the mean over the tokens that ask, the sum over those that are looked at. */
function ByWords({ matrix, words, title }: { matrix: Tensor; words: Word[]; title: string }) {
  const width = matrix.shape[1]!;
  const values = new Float64Array(words.length ** 2);
  words.forEach((asking, row) =>
    words.forEach((seen, column) => {
      let sum = 0;
      for (const query of asking.tokens) for (const key of seen.tokens) sum += matrix.values[query * width + key]!;
      values[row * words.length + column] = sum / asking.tokens.length;
    }),
  );
  return (
    <Matrix
      values={values}
      rows={words.length}
      columns={words.length}
      rowLabel={(row) => words[row]!.name}
      columnLabel={(column) => words[column]!.name}
      title={title}
    />
  );
}

function isProbs(name: string, scope: Scope): boolean {
  const [stack, kind] = scope.split(".");
  const words = name.split(".");
  return words.length === 4 && words[0] === stack && words[2] === kind && words[3] === "probs";
}

function tensorAddress(id: string, name: string, slice: string): string {
  return `trace/${id}/tensor?name=${encodeURIComponent(name)}&slice=${slice}`;
}

const CELL = 72;

/** All heads of all blocks on one canvas. */
function Thumbnails(props: { id: string; scope: Scope; layer: number; head: number }) {
  const { id, scope, layer, head } = props;
  const tensors = useTensors(`trace/${id}/heads`);
  const canvas = useRef<HTMLCanvasElement>(null);
  const pictures = tensors?.get(`${scope}.probs`);
  const [layers = 0, heads = 0, height = 0, width = 0] = pictures?.shape ?? [];
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context || !pictures) return;
    const image = context.createImageData(heads * (width + 1), layers * (height + 1));
    for (let place = 0; place < pictures.values.length; place++) {
      const block = Math.floor(place / (heads * height * width));
      const one = Math.floor(place / (height * width)) % heads;
      const y = block * (height + 1) + (Math.floor(place / width) % height);
      const x = one * (width + 1) + (place % width);
      paint(image.data, 4 * (y * image.width + x), pictures.values[place]! / 255, theme.value);
    }
    context.putImageData(image, 0, 0);
  }, [pictures, theme.value]);
  if (!pictures) return null;
  const style = { width: `${heads * CELL}px`, height: `${layers * CELL}px` };
  function onClick(event: MouseEvent): void {
    const box = canvas.current!.getBoundingClientRect();
    go({
      layer: Math.min(layers - 1, Math.floor(((event.clientY - box.top) / box.height) * layers)),
      head: Math.min(heads - 1, Math.floor(((event.clientX - box.left) / box.width) * heads)),
    });
  }
  const frame = { left: `${head * CELL}px`, top: `${layer * CELL}px`, width: `${CELL}px`, height: `${CELL}px` };
  const said = t("attention.all", { layers, heads });
  return (
    <figure class="scroll all">
      <div class="picture" style={style}>
        <canvas
          ref={canvas}
          width={heads * (width + 1)}
          height={layers * (height + 1)}
          role="img"
          aria-label={said}
          onClick={onClick}
        />
        <span class="frame chosen" style={frame} />
      </div>
      <figcaption class="hint" aria-hidden="true" style={{ maxWidth: style.width }}>
        {said}
      </figcaption>
    </figure>
  );
}
