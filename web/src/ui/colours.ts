/** Colours of a value that colour-blind readers can tell apart: white to blue, or orange through white to blue. */
const BLUE = [20, 84, 164] as const;
const ORANGE = [190, 84, 8] as const;
const PAPER = { light: [255, 255, 255], dark: [24, 27, 33] } as const;

export type Paper = keyof typeof PAPER;

/** Write the colour of `share` (-1 ... 1) at `place` of an RGBA image. */
export function paint(image: Uint8ClampedArray, place: number, share: number, paper: Paper): void {
  const strength = Math.min(1, Math.abs(share)) ** 0.7;
  const ink = share < 0 ? ORANGE : BLUE;
  for (let channel = 0; channel < 3; channel++) {
    const ground = PAPER[paper][channel]!;
    image[place + channel] = ground + (ink[channel]! - ground) * strength;
  }
  image[place + 3] = 255;
}
