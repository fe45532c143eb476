/** Every parameter with its formula, adding up to the total; what a pass costs; sliders for the shape. */
import { useEffect, useState } from "preact/hooks";
import { getJson } from "../api";
import { language, t, type Key } from "../language";
import { go, param } from "../route";
import { attempt, meta } from "../state";
import { percent, whole } from "../ui/format";
import { CopyPython } from "../ui/sum";

interface Row {
  name: string;
  shape: string;
  formula: string;
  symbols: string;
  count: number;
  share: number;
}

interface Group {
  name: string;
  count: number;
  share: number;
  rows: Row[];
}

interface Accounting {
  source: string;
  total: number;
  totals: Record<string, number>;
  groups: Group[];
  uncounted: Group[];
  weight_bytes: Record<string, number>;
  costs: { length: number; forward_flops_per_token: number; training_bytes_per_token: number }[];
  notes: string[];
  shape: Record<string, number>;
  presets: string[];
  python: string;
}

const SLIDERS = [
  { name: "num_hidden_layers", letter: "B", max: 48, step: 1 },
  { name: "hidden_size", letter: "D", max: 4096, step: 64 },
  { name: "num_attention_heads", letter: "N", max: 64, step: 1 },
  { name: "intermediate_size", letter: "I", max: 16384, step: 64 },
  { name: "vocab_size", letter: "V", max: 250000, step: 1 },
  { name: "length", letter: "L", max: 4096, step: 1 },
] as const;

export function Anatomy() {
  const [found, setFound] = useState<Accounting | null>(null);
  const source = param("source") ?? "";
  const query = new URLSearchParams({ source, language: language.value });
  for (const { name } of SLIDERS) {
    const value = param(name);
    if (value) query.set(name, value);
  }
  const path = `params?${query}`;
  useEffect(() => {
    const controller = new AbortController();
    attempt(getJson<Accounting>(path, controller.signal)).then((value) => {
      if (value) setFound(value);
    });
    return () => controller.abort();
  }, [path]);
  if (!found) return <h1>{t("page.anatomy")}</h1>;
  return (
    <>
      <h1>{t("page.anatomy")}</h1>
      <p class="lead">{t("anatomy.lead")}</p>
      <p class="tools">
        <label class="picker">
          {t("anatomy.source")}
          <select value={source} onChange={(event) => choose(event.currentTarget.value)}>
            <option value="">{meta.value?.model}</option>
            {found.presets.map((preset) => (
              <option value={preset}>{preset}</option>
            ))}
          </select>
        </label>
      </p>
      {found.shape["num_hidden_layers"] !== undefined && <Sliders shape={found.shape} />}
      <p class="total">
        <b data-value={found.total}>{whole(found.total)}</b> {t("anatomy.parameters")} ·{" "}
        {t("anatomy.memory", { size: megabytes(found.weight_bytes["float32"] ?? 4 * found.total) })}
      </p>
      <Costs found={found} />
      <p class="tools">
        <CopyPython code={found.python} />
      </p>
      <Table found={found} />
      {found.notes.map((note) => (
        <p class="note">{note}</p>
      ))}
    </>
  );
}

function choose(source: string): void {
  go({ source, ...Object.fromEntries(SLIDERS.map(({ name }) => [name, null])) });
}

function Sliders({ shape }: { shape: Record<string, number> }) {
  return (
    <fieldset class="sliders">
      <legend>{t("anatomy.shape")}</legend>
      {SLIDERS.map(({ name, letter, max, step }) => (
        <label>
          <span>
            {t(`anatomy.${name}` as Key)} <i>{letter}</i> = {whole(shape[name] ?? 0)}
          </span>
          <input
            type="range"
            min={step}
            max={max}
            step={step}
            value={shape[name] ?? 0}
            onChange={(event) => go({ [name]: event.currentTarget.value })}
          />
        </label>
      ))}
    </fieldset>
  );
}

function Costs({ found }: { found: Accounting }) {
  return (
    <ul class="costs">
      {found.costs.map((cost) => (
        <li>
          {t("anatomy.cost", {
            length: whole(cost.length),
            flops: (cost.forward_flops_per_token / 1e6).toFixed(1),
            bytes: megabytes(cost.training_bytes_per_token * cost.length),
          })}
        </li>
      ))}
    </ul>
  );
}

function Table({ found }: { found: Accounting }) {
  return (
    <div class="scroll">
      <table class="anatomy">
        <thead>
          <tr>
            <th scope="col">{t("anatomy.tensor")}</th>
            <th scope="col" class="count">
              {t("anatomy.count")}
            </th>
            <th scope="col" class="count">
              {t("anatomy.share")}
            </th>
            <th scope="col">{t("anatomy.formula")}</th>
            <th scope="col">{t("anatomy.numbers")}</th>
          </tr>
        </thead>
        {alike(found.groups).map(({ group, times }) => (
          <tbody>
            <tr class="group">
              <th scope="rowgroup">{times > 1 ? t("anatomy.times", { name: group.name, times }) : group.name}</th>
              <td class="count" data-value={group.count * times}>
                {whole(group.count * times)}
              </td>
              <td class="count">{percent(group.share * times)}</td>
              <td colSpan={2}>{times > 1 && <code>{`${times} × ${whole(group.count)}`}</code>}</td>
            </tr>
            {group.rows.map((row) => (
              <tr>
                <th scope="row">{row.name}</th>
                <td class="count" data-value={row.count}>
                  {whole(row.count)}
                </td>
                <td class="count">{percent(row.share)}</td>
                <td>
                  <code>{row.symbols}</code>
                </td>
                <td>
                  <code>{row.formula}</code>
                </td>
              </tr>
            ))}
          </tbody>
        ))}
        <tfoot>
          <tr>
            <th scope="row">{t("anatomy.total")}</th>
            <td class="count">
              <b data-value={found.total}>{whole(found.total)}</b>
            </td>
            <td class="count">100.0%</td>
            <td colSpan={2} />
          </tr>
        </tfoot>
      </table>
    </div>
  );
}

/** Put blocks of the same size behind each other into one row: `block 0` stands for all of them. */
function alike(groups: Group[]): { group: Group; times: number }[] {
  const found: { group: Group; times: number }[] = [];
  for (const group of groups) {
    const last = found.at(-1);
    const kind = group.name.replace(/\d+$/, "");
    if (last && kind !== group.name && last.group.name.startsWith(kind) && last.group.count === group.count)
      last.times++;
    else found.push({ group, times: 1 });
  }
  return found;
}

function megabytes(bytes: number): string {
  return bytes >= 1e9 ? `${(bytes / 1e9).toFixed(2)} GB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
