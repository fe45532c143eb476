/** One row of numbers as a strip of colours. */
import { useEffect, useRef } from "preact/hooks";
import { theme } from "../theme";
import { paint } from "./colours";

export function Strip(props: { values: ArrayLike<number>; title: string; onChoose: (column: number) => void }) {
  const { values, title, onChoose } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
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
    onChoose(Math.min(values.length - 1, Math.floor(((event.clientX - box.left) / box.width) * values.length)));
  }
  return (
    <canvas
      class="strip"
      ref={canvas}
      width={values.length}
      height={1}
      role="img"
      aria-label={title}
      onClick={onClick}
    />
  );
}
