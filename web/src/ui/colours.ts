/** Colours of a value that colour-blind readers can tell apart: blue above zero, orange below, stronger further away. */
import type { Theme } from "../theme";

// Far from zero must stand out from the paper: dark ink on white, bright ink on black.
const COLOURS = {
  light: { paper: [255, 255, 255], above: [20, 84, 164], below: [190, 84, 8] },
  dark: { paper: [24, 27, 33], above: [127, 180, 242], below: [240, 163, 94] },
} as const;

/** Write the colour of `share` (-1 ... 1) at `place` of an RGBA image. */
export function paint(image: Uint8ClampedArray, place: number, share: number, theme: Theme): void {
  const strength = Math.min(1, Math.abs(share)) ** 0.7;
  const { paper, above, below } = COLOURS[theme];
  const ink = share < 0 ? below : above;
  for (let channel = 0; channel < 3; channel++) {
    const ground = paper[channel]!;
    image[place + channel] = ground + (ink[channel]! - ground) * strength;
  }
  image[place + 3] = 255;
}
