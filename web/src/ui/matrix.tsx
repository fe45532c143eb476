/** A matrix as a picture: one canvas, a cursor for mouse and keyboard, and the same numbers as a table. */
import { useEffect, useRef, useState } from "preact/hooks";
import { t } from "../language";
import { theme } from "../theme";
import { paint } from "./colours";
import { digits } from "./format";

interface Props {
  values: ArrayLike<number>;
  rows: number;
  columns: number;
  rowLabel: (row: number) => string;
  columnLabel: (column: number) => string;
  /** What the picture shows, in a few words. */
  title: string;
  cell?: number;
  chosen?: { row: number; column: number } | null;
  onChoose?: (row: number, column: number) => void;
}

/** At most this many cells become a table; of more, the part around the cursor. */
const TABLE = 24;
/** Rows and columns have their labels beside them from this cell size on, in pixels. */
const LABELLED = 14;

export function Matrix(props: Props) {
  const { values, rows, columns, rowLabel, columnLabel, title, chosen, onChoose } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const [cursor, setCursor] = useState({ row: 0, column: 0 });
  const [asTable, setAsTable] = useState(false);
  const size = props.cell ?? Math.max(2, Math.min(28, Math.floor(640 / Math.max(rows, columns))));
  const at = { row: Math.min(cursor.row, rows - 1), column: Math.min(cursor.column, columns - 1) };

  useEffect(() => draw(canvas.current, values, rows, columns), [values, rows, columns, theme.value, asTable]);

  function move(row: number, column: number): void {
    setCursor({ row: Math.max(0, Math.min(rows - 1, row)), column: Math.max(0, Math.min(columns - 1, column)) });
  }

  function onKeyDown(event: KeyboardEvent): void {
    const steps: Record<string, [number, number]> = {
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
    };
    const step = steps[event.key];
    if (step) move(at.row + step[0], at.column + step[1]);
    else if (event.key === "Enter" || event.key === " ") onChoose?.(at.row, at.column);
    else return;
    event.preventDefault();
  }

  function place(event: MouseEvent): [number, number] {
    const box = canvas.current!.getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top) / box.height) * rows);
    const column = Math.floor(((event.clientX - box.left) / box.width) * columns);
    return [row, column];
  }

  const value = values[at.row * columns + at.column] ?? NaN;
  const said = `${rowLabel(at.row)} → ${columnLabel(at.column)}: ${digits(value)}`;
  return (
    <figure class="matrix">
      <figcaption>
        <output aria-live="polite">{said}</output>
        <button type="button" aria-pressed={asTable} onClick={() => setAsTable(!asTable)}>
          {t("matrix.table")}
        </button>
      </figcaption>
      {asTable ? (
        <MatrixTable {...props} from={at} />
      ) : (
        <div class="labelled" style={{ "--cell": `${size}px` }}>
          {size >= LABELLED && <Labels kind="columns" count={columns} label={columnLabel} chosen={at.column} />}
          {size >= LABELLED && <Labels kind="rows" count={rows} label={rowLabel} chosen={at.row} />}
          <div class="picture" style={{ width: `${columns * size}px`, height: `${rows * size}px` }}>
            <canvas
              ref={canvas}
              width={columns}
              height={rows}
              role="img"
              tabIndex={0}
              aria-label={`${title}. ${t("matrix.keys")}`}
              onKeyDown={onKeyDown}
              onMouseMove={(event) => move(...place(event))}
              onClick={(event) => onChoose?.(...place(event))}
            />
            <Frame place={at} size={size} kind="cursor" />
            {chosen && <Frame place={chosen} size={size} kind="chosen" />}
          </div>
        </div>
      )}
    </figure>
  );
}

function Labels(props: { kind: "rows" | "columns"; count: number; label: (place: number) => string; chosen: number }) {
  const { kind, count, label, chosen } = props;
  return (
    <ol class={`labels ${kind}`} aria-hidden="true">
      {Array.from({ length: count }, (_, place) => (
        <li class={place === chosen ? "chosen" : ""}>{label(place)}</li>
      ))}
    </ol>
  );
}

function Frame(props: { place: { row: number; column: number }; size: number; kind: string }) {
  const { place, size, kind } = props;
  const style = {
    left: `${place.column * size}px`,
    top: `${place.row * size}px`,
    width: `${size}px`,
    height: `${size}px`,
  };
  return <span class={`frame ${kind}`} style={style} />;
}

function draw(canvas: HTMLCanvasElement | null, values: ArrayLike<number>, rows: number, columns: number): void {
  const context = canvas?.getContext("2d");
  if (!context || rows * columns === 0) return;
  const image = context.createImageData(columns, rows);
  let largest = 0;
  for (let i = 0; i < rows * columns; i++) {
    const size = Math.abs(values[i]!);
    if (Number.isFinite(size) && size > largest) largest = size;
  }
  for (let i = 0; i < rows * columns; i++) {
    const value = values[i]!;
    paint(image.data, 4 * i, Number.isFinite(value) ? value / (largest || 1) : 0, theme.value);
  }
  context.putImageData(image, 0, 0);
}

function MatrixTable(props: Props & { from: { row: number; column: number } }) {
  const { values, rows, columns, rowLabel, columnLabel, from, onChoose } = props;
  const firstRow = Math.max(0, Math.min(from.row - TABLE / 2, rows - TABLE));
  const firstColumn = Math.max(0, Math.min(from.column - TABLE / 2, columns - TABLE));
  const rowList = Array.from({ length: Math.min(TABLE, rows) }, (_, i) => firstRow + i);
  const columnList = Array.from({ length: Math.min(TABLE, columns) }, (_, i) => firstColumn + i);
  return (
    <div class="scroll">
      <table class="numbers">
        <thead>
          <tr>
            <td />
            {columnList.map((column) => (
              <th scope="col">{columnLabel(column)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rowList.map((row) => (
            <tr>
              <th scope="row">{rowLabel(row)}</th>
              {columnList.map((column) => (
                <td>
                  <button type="button" class="number" onClick={() => onChoose?.(row, column)}>
                    {digits(values[row * columns + column]!)}
                  </button>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
