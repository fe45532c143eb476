/** How BERT's training examples are made: dice for every token, a coin for every pair, and what the model says. */
import { useEffect, useState } from "preact/hooks";
import { language, t, type Key } from "../language";
import { go, param } from "../route";
import { meta } from "../state";
import { Bars } from "../ui/bars";
import { digits, percent, whole } from "../ui/format";
import { MASKED, Predictions, type Fate, type Prediction } from "../ui/hidden";
import { CopyPython } from "../ui/sum";
import { Progress, useWork } from "../ui/work";

interface Token {
  token: string;
  read: string;
  id: number;
  segment: number;
  starts_word: boolean;
  roll: number | null;
  fate: number | null;
  kind: Fate;
  label: number | null;
}

interface Text {
  document: number;
  first: number;
  last: number;
  tokens: number;
  cut: number;
}

interface Draws {
  count: number;
  rolled: number;
  chosen: number;
  times: number[];
  mask: number;
  random: number;
  kept: number;
}

interface Made {
  example: number;
  num_examples: number;
  num_documents: number;
  num_sentences: number;
  pair: { coin: number; target: number; label: string; a: Text; b: Text; python: string } | null;
  tokens: Token[];
  predictions: Prediction[] | null;
  verdict: { scores: Record<string, number>; loss: number | null } | null;
  draws: Draws;
}

/** Numbers of the address, with what they are when it is silent. */
const SETTINGS = {
  select_prob: 0.15,
  mask_prob: 0.8,
  random_prob: 0.1,
  max_length: 48,
  seed: 0,
  epoch: 0,
  example: 0,
};
type Name = keyof typeof SETTINGS;

function setting(name: Name): number {
  const value = Number(param(name) ?? "");
  return param(name) !== null && Number.isFinite(value) ? value : SETTINGS[name];
}

export function Pretrain() {
  const work = useWork<Made>("pretrain");
  const asked = {
    text: param("corpus") ?? t("pretrain.sample"),
    whole_words: param("words") === "1",
    ...Object.fromEntries(Object.keys(SETTINGS).map((name) => [name, setting(name as Name)])),
  };
  const key = JSON.stringify(asked);
  useEffect(() => {
    if (meta.value) void work.run(asked);
  }, [key, meta.value]);
  const found = work.found;
  return (
    <>
      <h1>{t("page.pretrain")}</h1>
      <p class="lead">{t("pretrain.lead")}</p>
      <Pasted text={asked.text} />
      <Controls found={found} />
      {!found && <Progress work={work} again={asked} />}
      {found && (
        <>
          <h2>
            {t("pretrain.example", {
              number: found.example + 1,
              count: found.num_examples,
              documents: found.num_documents,
              sentences: found.num_sentences,
            })}
          </h2>
          {found.pair ? <Coin pair={found.pair} /> : <p class="hint">{t("pretrain.no_pairs")}</p>}
          <Dice tokens={found.tokens} />
          <Said found={found} />
          <Histogram found={found} />
        </>
      )}
    </>
  );
}

function Pasted({ text }: { text: string }) {
  const [written, setWritten] = useState(text);
  useEffect(() => setWritten(text), [text, language.value]);
  function onSubmit(event: Event): void {
    event.preventDefault();
    go({ corpus: written, example: null });
  }
  return (
    <form class="pasted" onSubmit={onSubmit}>
      <label>
        {t("pretrain.text")}
        <textarea
          rows={6}
          value={written}
          maxLength={meta.value?.limits.characters}
          onInput={(event) => setWritten(event.currentTarget.value)}
        />
      </label>
      <button type="submit" class="primary">
        {t("pretrain.make")}
      </button>
    </form>
  );
}

function Controls({ found }: { found: Made | null }) {
  const most = Math.max(16, Math.min(128, meta.value?.limits.tokens ?? 128));
  const kept = 1 - setting("mask_prob") - setting("random_prob");
  return (
    <fieldset class="sliders">
      <legend>{t("pretrain.rules")}</legend>
      <Share name="select_prob" most={1} />
      <Share name="mask_prob" most={1 - setting("random_prob")} />
      <Share name="random_prob" most={1 - setting("mask_prob")} />
      <p>{t("pretrain.kept_share", { share: percent(Math.max(0, kept)) })}</p>
      <label>
        <span>
          {t("pretrain.max_length")} = {whole(setting("max_length"))}
        </span>
        <input
          type="range"
          min={8}
          max={most}
          value={setting("max_length")}
          onChange={(event) => go({ max_length: event.currentTarget.value, example: null })}
        />
      </label>
      <p class="tools">
        <label class="check">
          <input
            type="checkbox"
            checked={param("words") === "1"}
            onChange={(event) => go({ words: event.currentTarget.checked ? 1 : null })}
          />
          {t("pretrain.whole_words")}
        </label>
        <Whole name="seed" />
        <Whole name="epoch" />
      </p>
      <p class="tools">
        <button type="button" class="primary" onClick={() => go({ epoch: setting("epoch") + 1 })}>
          {t("pretrain.again")}
        </button>
        <button
          type="button"
          disabled={!found || found.num_examples < 2}
          onClick={() => go({ example: ((found?.example ?? 0) + 1) % (found?.num_examples ?? 1) })}
        >
          {t("pretrain.next")}
        </button>
      </p>
    </fieldset>
  );
}

function Share({ name, most }: { name: "select_prob" | "mask_prob" | "random_prob"; most: number }) {
  return (
    <label>
      <span>
        {t(`pretrain.${name}`)} = {percent(setting(name))}
      </span>
      <input
        type="range"
        min={name === "select_prob" ? 0.01 : 0}
        max={1}
        step={0.01}
        value={setting(name)}
        onChange={(event) => go({ [name]: Math.min(Number(event.currentTarget.value), most).toFixed(2) })}
      />
    </label>
  );
}

function Whole({ name }: { name: "seed" | "epoch" }) {
  return (
    <label class="picker">
      {t(`pretrain.${name}`)}
      <input
        type="number"
        min={0}
        max={999999}
        step={1}
        value={setting(name)}
        onChange={(event) => go({ [name]: Math.max(0, Math.round(Number(event.currentTarget.value) || 0)) })}
      />
    </label>
  );
}

function Coin({ pair }: { pair: NonNullable<Made["pair"]> }) {
  const isFlipped = pair.label === "NotNext";
  return (
    <section class="card coin">
      <p>
        {t("pretrain.coin")}
        <b data-value={pair.coin}>{digits(pair.coin)}</b> {isFlipped ? "< 0.5" : "≥ 0.5"} →{" "}
        <b class="label">{pair.label}</b>: {t(isFlipped ? "pretrain.flipped" : "pretrain.follows")}
      </p>
      <ul>
        {(["a", "b"] as const).map((side) => (
          <li class={`text-${side}`}>
            <b>{side.toUpperCase()}</b>{" "}
            {t("pretrain.source", {
              document: pair[side].document + 1,
              first: pair[side].first + 1,
              last: pair[side].last + 1,
              tokens: pair[side].tokens,
            })}
            {pair[side].cut > 0 && ` ${t("pretrain.cut", { count: pair[side].cut })}`}
          </li>
        ))}
      </ul>
      <p class="hint">{t("pretrain.target", { count: pair.target })}</p>
      <CopyPython code={pair.python} />
    </section>
  );
}

function Dice({ tokens }: { tokens: Token[] }) {
  return (
    <>
      <h2>{t("pretrain.dice")}</h2>
      <p class="legend">
        {(["left", "mask", "random", "kept"] as const).map((kind) => (
          <span class={kind}>{t(`fate.${kind}`)}</span>
        ))}
      </p>
      <ol class="dice">
        {tokens.map((one, place) => (
          <li class={`${one.kind} ${one.segment ? "text-b" : "text-a"} ${one.starts_word ? "" : "inner"}`}>
            <small>{place}</small>
            <b>{one.token}</b>
            <span class="roll" data-value={one.roll}>
              {one.roll === null ? "–" : digits(one.roll)}
            </span>
            <span class="fate" data-value={one.fate}>
              {one.fate === null ? "" : digits(one.fate)}
            </span>
            <span class="read">{one.read === one.token ? "" : one.read}</span>
            <small class="label">{one.label ?? "−100"}</small>
          </li>
        ))}
      </ol>
      <p class="hint">{t("pretrain.dice_hint")}</p>
    </>
  );
}

function Said({ found }: { found: Made }) {
  const predictions = found.predictions;
  const place = Number(param("place") ?? predictions?.[0]?.place ?? 0);
  return (
    <>
      <h2>{t("pretrain.said")}</h2>
      {predictions ? (
        <Predictions
          predictions={predictions}
          tokens={found.tokens}
          chosen={place}
          onChoose={(one) => go({ place: one })}
        />
      ) : (
        <p class="hint">{t("pretrain.no_head")}</p>
      )}
      {found.verdict && (
        <section class="card verdict">
          <h3>{t("pretrain.verdict", { label: found.pair?.label ?? "" })}</h3>
          <Bars bars={Object.entries(found.verdict.scores).map(([label, score]) => ({ label, score }))} />
          <p>
            {t("hidden.loss")} <b data-value={found.verdict.loss}>{digits(found.verdict.loss ?? NaN)}</b>
          </p>
        </section>
      )}
    </>
  );
}

/** What many draws give, beside what the rules say. */
function Histogram({ found }: { found: Made }) {
  const { draws, tokens } = found;
  const expected: Record<string, number> = {
    mask: setting("mask_prob"),
    random: setting("random_prob"),
    kept: Math.max(0, 1 - setting("mask_prob") - setting("random_prob")),
  };
  const rows = [
    { name: "chosen", count: draws.chosen, of: draws.rolled, rule: setting("select_prob") },
    ...MASKED.map((kind) => ({
      name: kind as string,
      count: draws[kind as "mask"],
      of: draws.chosen,
      rule: expected[kind] ?? 0,
    })),
  ];
  const most = Math.max(...draws.times, 1);
  return (
    <>
      <h2>{t("pretrain.draws", { count: draws.count })}</h2>
      <div class="scroll">
        <table class="numbers draws">
          <thead>
            <tr>
              <td />
              <th scope="col">{t("pretrain.count")}</th>
              <th scope="col">{t("pretrain.share")}</th>
              <th scope="col">{t("pretrain.rule")}</th>
              <td />
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr data-kind={row.name}>
                <th scope="row">{t(`fate.${row.name}` as Key)}</th>
                <td>
                  {whole(row.count)} / {whole(row.of)}
                </td>
                <td>{percent(row.of ? row.count / row.of : 0)}</td>
                <td>{percent(row.rule)}</td>
                <td class="wide">
                  <span class="bar" style={{ "--at": percent(row.rule) }}>
                    <span style={{ width: percent(row.of ? row.count / row.of : 0) }} />
                  </span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="hint">{t("pretrain.times")}</p>
      <ol class="times">
        {tokens.map((one, place) => (
          <li>
            <span class="column" style={{ height: `${(40 * (draws.times[place] ?? 0)) / most}px` }} />
            <small>{draws.times[place]}</small>
            <span>{one.token}</span>
          </li>
        ))}
      </ol>
      <p class="hint">{t("pretrain.at_least")}</p>
    </>
  );
}
