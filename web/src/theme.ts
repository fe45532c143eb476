import { effect, signal } from "@preact/signals";

export type Theme = "light" | "dark";
const asked = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";

export const theme = signal<Theme>((localStorage.getItem("theme") as Theme | null) ?? asked);
effect(() => {
  localStorage.setItem("theme", theme.value);
  document.documentElement.dataset["theme"] = theme.value;
});
