/** The sum that made a number: formula, terms, total, and the same as Python. */
import { useEffect, useState } from "preact/hooks";
import { getJson } from "../api";
import { t } from "../language";
import { attempt, trace } from "../state";
import { digits } from "./format";

interface Place {
  name: string;
  index: number[];
}

export interface Cell {
  place: Place;
  value: number;
  formula: string;
  /** The formula with the numbers of this cell. */
  written: string;
  /** Columns of the table of terms, such as x, W, x * W. */
  columns: string[];
  terms: { label: string; values: number[]; source: Place | null }[];
  python: string;
}

export function cellAddress(id: string, name: string, index: number[]): string {
  return `trace/${id}/cell?name=${encodeURIComponent(name)}&index=${index.join(",")}`;
}

/** Show how the number at `index` of the tensor `name` was computed; its parts can be followed further. */
export function Sum(props: { name: string; index: number[]; onFollow?: (name: string, index: number[]) => void }) {
  const [cell, setCell] = useState<Cell | null>(null);
  const id = trace.value?.id;
  const key = props.index.join(",");
  useEffect(() => {
    if (!id) return;
    let isNewest = true;
    attempt(getJson<Cell>(cellAddress(id, props.name, props.index))).then((found) => {
      if (isNewest) setCell(found);
    });
    return () => {
      isNewest = false;
    };
  }, [id, props.name, key]);
  if (!cell) return null;
  return <SumTable cell={cell} onFollow={props.onFollow} />;
}

const SHOWN = 12;

function SumTable({
  cell,
  onFollow,
}: {
  cell: Cell;
  onFollow?: ((name: string, index: number[]) => void) | undefined;
}) {
  const [showsAll, setShowsAll] = useState(false);
  const last = cell.columns.length - 1;
  const ranked = cell.terms
    .map((term, place) => ({ term, place }))
    .sort((a, b) => Math.abs(b.term.values[last]!) - Math.abs(a.term.values[last]!));
  const kept = showsAll ? cell.terms.map((term, place) => ({ term, place })) : ranked.slice(0, SHOWN);
  const rest = ranked.slice(SHOWN);
  return (
    <section class="sum" data-cell={`${cell.place.name}[${cell.place.index.join(",")}]`}>
      <h3>
        <code>
          {cell.place.name}[{cell.place.index.join(", ")}]
        </code>{" "}
        = <b data-value={cell.value}>{digits(cell.value, 6)}</b>
      </h3>
      <p>
        <code class="formula">{cell.formula}</code>
      </p>
      {cell.written && (
        <p>
          <code class="formula">{cell.written}</code>
        </p>
      )}
      {cell.terms.length > 0 && (
        <div class="scroll">
          <table class="numbers">
            <thead>
              <tr>
                <td />
                {cell.columns.map((column) => (
                  <th scope="col">{column}</th>
                ))}
              </tr>
            </thead>
            <tbody>
              {kept.map(({ term }) => (
                <tr>
                  <th scope="row">
                    {term.source && onFollow ? (
                      <button
                        type="button"
                        class="link"
                        onClick={() => onFollow(term.source!.name, term.source!.index)}
                      >
                        {term.label}
                      </button>
                    ) : (
                      term.label
                    )}
                  </th>
                  {term.values.map((value) => (
                    <td data-value={value}>{digits(value, 6)}</td>
                  ))}
                </tr>
              ))}
              {!showsAll && rest.length > 0 && (
                <tr>
                  <th scope="row" colSpan={cell.columns.length}>
                    {t("sum.others", { count: rest.length })}
                  </th>
                  <td>
                    {digits(
                      rest.reduce((sum, { term }) => sum + term.values[last]!, 0),
                      6,
                    )}
                  </td>
                </tr>
              )}
            </tbody>
          </table>
        </div>
      )}
      <p class="tools">
        {cell.terms.length > SHOWN && (
          <button type="button" onClick={() => setShowsAll(!showsAll)}>
            {showsAll ? t("sum.fewer") : t("sum.all", { count: cell.terms.length })}
          </button>
        )}
        <CopyPython code={cell.python} />
      </p>
    </section>
  );
}

export function CopyPython({ code }: { code: string }) {
  const [isCopied, setIsCopied] = useState(false);
  async function copy(): Promise<void> {
    await navigator.clipboard.writeText(code);
    setIsCopied(true);
    setTimeout(() => setIsCopied(false), 1500);
  }
  return (
    <details class="python">
      <summary>Python</summary>
      <pre>{code}</pre>
      <button type="button" onClick={() => void copy()}>
        {isCopied ? t("python.copied") : t("python.copy")}
      </button>
    </details>
  );
}
