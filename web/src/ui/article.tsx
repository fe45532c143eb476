/** The result of an experiment: plots, arithmetic, tables, claims with verdicts, what it means. */
import { t, type Key, type Language } from "../language";
import { CopyPython } from "./sum";
import { said, type Words } from "./words";

type Text = Words | string;
interface Estimate {
  mean: number;
  low: number;
  high: number;
}
type Cell = Text | number | Estimate;

export interface Steps {
  title: Text;
  lines: Text[];
}

export interface Result {
  name: string;
  theory: Words;
  meaning: Words;
  steps: Steps[];
  tables: { title: Text; columns: Text[]; rows: Cell[][]; digits: number; is_fixed: boolean }[];
  claims: { source: Text; statement: Words; found: Words; verdict: string }[];
  drawings: Record<Language, string[]>;
  seeds: number[];
  elapsed_s: number;
  python: string;
}

export function Article({ result, language }: { result: Result; language: Language }) {
  return (
    <article>
      <h3>{t("lab.meaning")}</h3>
      <p class="meaning">{said(result.meaning)}</p>
      {result.claims.length > 0 && <Claims result={result} />}
      {result.drawings[language].map((svg) => (
        <figure class="drawing" dangerouslySetInnerHTML={{ __html: svg }} />
      ))}
      {result.steps.map((steps) => (
        <section>
          <h3>{said(steps.title)}</h3>
          <Lines lines={steps.lines} />
        </section>
      ))}
      {result.tables.map((table) => (
        <ResultTable table={table} />
      ))}
      <h3>{t("lab.theory")}</h3>
      <p>{said(result.theory)}</p>
      <p class="hint">
        {t("lab.took", { seconds: result.elapsed_s.toFixed(1) })}
        {result.seeds.length > 0 && ` ${t("lab.seeds", { seeds: result.seeds.join(", ") })}`}
      </p>
      <p class="tools">
        <CopyPython code={result.python} />
      </p>
    </article>
  );
}

export function Lines({ lines }: { lines: Text[] }) {
  return (
    <pre class="arithmetic">
      {lines.map((line) => (
        <div>{said(line)}</div>
      ))}
    </pre>
  );
}

function Claims({ result }: { result: Result }) {
  return (
    <ul class="claims">
      {result.claims.map((claim) => (
        <li class={claim.verdict.replaceAll(" ", "-")}>
          <b>{t(`verdict.${claim.verdict.replaceAll(" ", "_")}` as Key)}</b> {said(claim.statement)}
          <p>{said(claim.found)}</p>
          <small>{said(claim.source)}</small>
        </li>
      ))}
    </ul>
  );
}

function ResultTable({ table }: { table: Result["tables"][number] }) {
  return (
    <section>
      <h3>{said(table.title)}</h3>
      <div class="scroll">
        <table class="numbers">
          <thead>
            <tr>{table.columns.map((column) => (said(column) ? <th scope="col">{said(column)}</th> : <td />))}</tr>
          </thead>
          <tbody>
            {table.rows.map((row) => (
              <tr>
                {row.map((cell) => (
                  <td>{shown(cell, table.digits, table.is_fixed)}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function shown(cell: Cell, digits: number, isFixed: boolean): string {
  if (typeof cell === "string") return cell;
  if (typeof cell === "number") return written(cell, digits, isFixed);
  if ("mean" in cell) {
    const [mean, low, high] = [cell.mean, cell.low, cell.high].map((one) => written(one, digits, isFixed));
    return `${mean} (${low} … ${high})`;
  }
  return said(cell);
}

function written(value: number, digits: number, isFixed: boolean): string {
  return isFixed ? value.toFixed(digits) : String(Number(value.toPrecision(digits)));
}
