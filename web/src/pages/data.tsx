/** The rows of the user's file, the worst first; each opens in the other pages. */
import { useEffect } from "preact/hooks";
import { t } from "../language";
import { address, go, index, param } from "../route";
import { meta } from "../state";
import { digits, whole } from "../ui/format";
import { CopyPython } from "../ui/sum";
import { said, type Words } from "../ui/words";
import { Progress, useWork } from "../ui/work";

interface Row {
  where: string;
  texts: string[];
  gold: string;
  guess: string;
  loss?: number;
  chrf?: number;
  target?: unknown;
  python?: string | null;
  is_right: boolean;
}

interface Judged {
  file: string;
  examples: number;
  wrong: number;
  bad: number;
  unlabelled: number;
  /** Labelled rows behind the ones that are judged. */
  not_judged: number;
  truncated: number | null;
  metrics: Record<string, number>;
  alarm: Words | string | null;
  rows: Row[];
}

const PER_PAGE = 25;

export function YourData() {
  const work = useWork<Judged>("data");
  const file = meta.value?.data;
  useEffect(() => {
    if (file) void work.run({});
  }, [file]);
  return (
    <>
      <h1>{t("page.data")}</h1>
      <p class="lead">{t("data.lead")}</p>
      {meta.value && !file && (
        <p class="hint">
          {t("data.none")} <code>glassbert open MODEL --data dev.tsv</code>
        </p>
      )}
      {file && work.share !== null && <p class="hint">{t("data.judging", { file })}</p>}
      <Progress work={work} again={{}} />
      {work.found && <Shown found={work.found} />}
    </>
  );
}

function Shown({ found }: { found: Judged }) {
  const onlyWrong = param("only") === "wrong";
  const rows = onlyWrong ? found.rows.filter((row) => !row.is_right) : found.rows;
  const from = index("from", rows.length);
  return (
    <>
      <p class="total">
        {t("data.total", { file: found.file, examples: whole(found.examples), wrong: whole(found.wrong) })}
      </p>
      {found.alarm && <p class="warning">{said(found.alarm)}</p>}
      {found.not_judged > 0 && (
        <p class="warning">
          {t("data.not_judged", { examples: whole(found.examples), count: whole(found.not_judged) })}
        </p>
      )}
      {found.unlabelled > 0 && <p class="warning">{t("data.unlabelled", { count: whole(found.unlabelled) })}</p>}
      {found.bad > 0 && <p class="warning">{t("data.bad", { count: whole(found.bad) })}</p>}
      {!!found.truncated && <p class="warning">{t("data.truncated", { count: whole(found.truncated) })}</p>}
      <dl class="metrics">
        {Object.entries(found.metrics).map(([name, value]) => (
          <div>
            <dt>{name}</dt>
            <dd data-value={value}>{digits(value)}</dd>
          </div>
        ))}
      </dl>
      <p class="tools">
        <button
          type="button"
          aria-pressed={onlyWrong}
          onClick={() => go({ only: onlyWrong ? null : "wrong", from: null })}
        >
          {t("data.only_wrong")}
        </button>
        <button type="button" disabled={from === 0} onClick={() => go({ from: Math.max(0, from - PER_PAGE) })}>
          {t("data.worse")}
        </button>
        <button type="button" disabled={from + PER_PAGE >= rows.length} onClick={() => go({ from: from + PER_PAGE })}>
          {t("data.better")}
        </button>
        <output>
          {rows.length === 0 ? 0 : from + 1}–{Math.min(rows.length, from + PER_PAGE)} / {whole(rows.length)}
        </output>
      </p>
      <ol class="judged" start={from + 1}>
        {rows.slice(from, from + PER_PAGE).map((row) => (
          <RowOfData row={row} key={row.where} />
        ))}
      </ol>
    </>
  );
}

function RowOfData({ row }: { row: Row }) {
  const at = { text: row.texts[0] ?? "", pair: row.texts[1] ?? null, token: null, cell: null, target: null };
  const target = row.target === undefined ? null : JSON.stringify(row.target);
  return (
    <li class={row.is_right ? "right" : "wrong"}>
      <p class="texts" dir="auto">
        {row.texts.map((text) => (
          <q>{text}</q>
        ))}
      </p>
      <p class="judgement">
        <b data-value={row.loss ?? row.chrf}>
          {row.loss !== undefined
            ? t("data.loss", { value: digits(row.loss) })
            : t("data.chrf", { value: digits(row.chrf!, 2) })}
        </b>{" "}
        · {t("data.gold")}
        <b>{row.gold}</b> · {t("data.guess")}
        <b>{row.guess}</b>
        <small> {row.where}</small>
      </p>
      <p class="tools">
        <a href={address("flow", at)}>{t("page.flow")}</a>
        {row.loss !== undefined && <a href={address("why", at)}>{t("page.why")}</a>}
        {row.loss !== undefined && <a href={address("backprop", { ...at, target })}>{t("data.gradients")}</a>}
        <a href={address("compare", { ...at, other: null, otherpair: null })}>{t("page.compare")}</a>
        {row.python && <CopyPython code={row.python} />}
      </p>
    </li>
  );
}
