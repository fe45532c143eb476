/** Two texts, or two models, side by side: what each answers, and how far apart their numbers are. */
import { useEffect, useState } from "preact/hooks";
import { postJson } from "../api";
import { language, t } from "../language";
import { go, index, param } from "../route";
import { attempt, meta, numHeads, pair, steps, text, type Place } from "../state";
import { Bars, Places } from "../ui/bars";
import { digits } from "../ui/format";
import { useTensors } from "../ui/load";
import { Matrix } from "../ui/matrix";
import { Picker } from "../ui/picker";
import { CopyPython } from "../ui/sum";

interface Side {
  id: string;
  model: string;
  text: string;
  pair: string | null;
  tokens: string[];
  places: Place[];
}

interface Distance {
  name: string;
  relative: number;
  largest: number;
  share: number;
}

interface Found {
  sides: [Side, Side];
  first: string | null;
  distances: Distance[];
  only: [string[], string[]];
  matched: [number[], number[]];
  python: string;
}

/** Where a block hands over to the next: how far apart the two passes are after each. */
const HANDED_OVER = /^(emb\.out|(enc|dec)\.\d+\.out|(enc|dec)\.out)$/;

export function Compare() {
  const [found, setFound] = useState<Found | null>(null);
  const asked = {
    text: text.value,
    pair: pair.value || null,
    other_text: param("other") ?? otherExample() ?? text.value,
    other_pair: param("other") === null ? pair.value || null : param("otherpair"),
  };
  useEffect(() => {
    if (!meta.value || !asked.text) return;
    const controller = new AbortController();
    attempt(postJson<Found>("compare", asked, controller.signal)).then((value) => {
      if (!controller.signal.aborted) setFound(value);
    });
    return () => controller.abort();
  }, [asked.text, asked.pair, asked.other_text, asked.other_pair, meta.value]);
  return (
    <>
      <h1>{t("page.compare")}</h1>
      <p class="lead">
        {meta.value?.other
          ? t("compare.models", { model: meta.value.model, other: meta.value.other })
          : t("compare.texts", { model: meta.value?.model ?? "" })}
      </p>
      <OtherText other={asked.other_text} otherPair={asked.other_pair ?? ""} />
      {found && <Shown found={found} />}
    </>
  );
}

/** What is compared with the example; two models read the same text. */
function otherExample(): string | undefined {
  const example = meta.value?.examples[language.value];
  return !meta.value?.other && text.value === example?.text ? example.other : undefined;
}

/** The second text; it becomes part of the address. */
function OtherText({ other, otherPair }: { other: string; otherPair: string }) {
  const [first, setFirst] = useState(other);
  const [second, setSecond] = useState(otherPair);
  useEffect(() => setFirst(other), [other]);
  useEffect(() => setSecond(otherPair), [otherPair]);
  return (
    <form
      class="tools other"
      onSubmit={(event) => {
        event.preventDefault();
        go({ other: first, otherpair: second });
      }}
    >
      <label class="picker wide">
        {t("compare.other")}
        <input
          value={first}
          maxLength={meta.value?.limits.characters}
          onInput={(event) => setFirst(event.currentTarget.value)}
        />
      </label>
      <label class="picker">
        {t("text.pair")}
        <input value={second} onInput={(event) => setSecond(event.currentTarget.value)} />
      </label>
      <button type="submit">{t("compare.go")}</button>
    </form>
  );
}

function Shown({ found }: { found: Found }) {
  const ranked = param("order") === "largest";
  const every = param("all") === "1";
  const kept = every ? found.distances : found.distances.filter((one) => HANDED_OVER.test(one.name));
  const list = ranked ? [...kept].sort((a, b) => b.relative - a.relative) : kept;
  const chosen = found.distances.find((one) => one.name === param("tensor"));
  return (
    <>
      <div class="sides">
        {found.sides.map((side) => (
          <section>
            <h2>
              {side.model}: <q>{side.text}</q> {side.pair && <q>{side.pair}</q>}
            </h2>
            <Places places={side.places} heading="h3" />
          </section>
        ))}
      </div>
      <h2>{t("compare.distances")}</h2>
      <p class="total">
        {found.first ? t("compare.part", { name: found.first }) : t("compare.same", { count: found.distances.length })}
      </p>
      <p class="hint">{t("compare.hint")}</p>
      <p class="tools">
        <button type="button" aria-pressed={every} onClick={() => go({ all: every ? null : 1 })}>
          {t("compare.all", { count: found.distances.length })}
        </button>
        <button type="button" aria-pressed={ranked} onClick={() => go({ order: ranked ? null : "largest" })}>
          {t("compare.ranked")}
        </button>
        <CopyPython code={found.python} />
      </p>
      <div class="split long">
        <Bars
          bars={list.map((one) => ({ label: one.name, score: one.relative }))}
          largest={Math.max(...list.map((one) => one.relative), 1e-30)}
          chosen={chosen?.name}
          onChoose={(name) => go({ tensor: name })}
        />
        <aside>
          {chosen ? <Difference found={found} chosen={chosen} /> : <p class="hint">{t("compare.choose")}</p>}
        </aside>
      </div>
      {found.only.map(
        (names, side) =>
          names.length > 0 && (
            <p class="note">
              {t("compare.only", { model: found.sides[side]!.model, names: names.slice(0, 8).join(", ") })}
            </p>
          ),
      )}
    </>
  );
}

/** The second tensor minus the first, at the tokens that both texts have. */
function Difference({ found, chosen }: { found: Found; chosen: Distance }) {
  const dims = steps.value.get(chosen.name)?.dims ?? [];
  const byHead = dims[1] === "head";
  const head = index("head", numHeads.value);
  const query = `tensor?name=${encodeURIComponent(chosen.name)}${byHead ? `&slice=0,${head}` : ""}`;
  const first = useTensors(`trace/${found.sides[0].id}/${query}`)?.get(chosen.name);
  const second = useTensors(`trace/${found.sides[1].id}/${query}`)?.get(chosen.name);
  if (!first || !second || first.shape.length !== 2) return <DistanceOf chosen={chosen} />;
  const [rows, otherRows] =
    dims.includes("token") || byHead ? found.matched : [all(first.shape[0]!), all(second.shape[0]!)];
  const [columns, otherColumns] = byHead ? found.matched : [all(first.shape[1]!), all(second.shape[1]!)];
  const width = Math.min(columns.length, otherColumns.length);
  const values = new Float32Array(rows.length * width);
  rows.forEach((row, place) => {
    for (let column = 0; column < width; column++) {
      const before = first.values[row * first.shape[1]! + columns[column]!]!;
      const after = second.values[otherRows[place]! * second.shape[1]! + otherColumns[column]!]!;
      values[place * width + column] = after - before;
    }
  });
  const token = (place: number) => found.sides[0].tokens[rows[place]!] ?? String(place);
  return (
    <>
      <DistanceOf chosen={chosen} />
      {byHead && <Picker name="head" label={t("attention.head")} count={numHeads.value} value={head} />}
      <Matrix
        values={values}
        rows={rows.length}
        columns={width}
        rowLabel={token}
        columnLabel={byHead ? (place) => found.sides[0].tokens[columns[place]!] ?? "" : String}
        title={t("compare.difference", { name: chosen.name })}
      />
    </>
  );
}

function DistanceOf({ chosen }: { chosen: Distance }) {
  return (
    <h3>
      {t("compare.difference", { name: chosen.name })}: {t("compare.largest", { value: digits(chosen.largest) })}
    </h3>
  );
}

function all(count: number): number[] {
  return Array.from({ length: count }, (_, place) => place);
}
