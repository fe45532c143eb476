/** One row of numbers as a strip of colours; arrow keys move along it, Enter chooses a number. */
import { useEffect, useRef, useState } from "preact/hooks";
import { theme } from "../theme";
import { paint } from "./colours";
import { digits } from "./format";

const LEAP = 10;

export function Strip(props: { values: ArrayLike<number>; title: string; onChoose: (column: number) => void }) {
  const { values, title, onChoose } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const [cursor, setCursor] = useState(0);
  const last = values.length - 1;
  const at = Math.min(cursor, last);
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context) return;
    const image = context.createImageData(values.length, 1);
    const largest = Math.max(...Array.from(values, (value) => Math.abs(value)).filter(Number.isFinite), 1e-30);
    Array.from(values).forEach((value, column) => {
      paint(image.data, 4 * column, Number.isFinite(value) ? value / largest : 0, theme.value);
    });
    context.putImageData(image, 0, 0);
  }, [values, theme.value]);
  function onClick(event: MouseEvent): void {
    const box = canvas.current!.getBoundingClientRect();
    onChoose(Math.min(last, Math.floor(((event.clientX - box.left) / box.width) * values.length)));
  }
  function onKeyDown(event: KeyboardEvent): void {
    const steps: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, PageUp: -LEAP, PageDown: LEAP };
    const step = steps[event.key];
    if (step) setCursor(Math.max(0, Math.min(last, at + step)));
    else if (event.key === "Home") setCursor(0);
    else if (event.key === "End") setCursor(last);
    else if (event.key === "Enter") onChoose(at);
    else return;
    event.preventDefault();
  }
  return (
    <canvas
      class="strip"
      ref={canvas}
      width={values.length}
      height={1}
      role="slider"
      tabIndex={0}
      aria-label={title}
      aria-valuemin={0}
      aria-valuemax={last}
      aria-valuenow={at}
      aria-valuetext={`${at}: ${digits(values[at]!)}`}
      onClick={onClick}
      onKeyDown={onKeyDown}
    />
  );
}
