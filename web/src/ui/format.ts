/** Write a number so that it can be checked: as many digits as float32 has, no more. */
export function digits(value: number, places = 4): string {
  if (!Number.isFinite(value)) return value > 0 ? "∞" : value < 0 ? "−∞" : "NaN";
  const size = Math.abs(value);
  const written = size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(places - 1) : value.toFixed(places);
  return written.replaceAll("-", "−");
}

export function whole(value: number): string {
  return value.toLocaleString("en-US");
}

export function percent(value: number): string {
  return `${(100 * value).toFixed(1)}%`;
}
