/** English and Chinese. Both files have the same keys: a missing one does not compile. */
import { signal, effect } from "@preact/signals";
import en from "./messages/en.json";
import zh from "./messages/zh.json";

export type Key = keyof typeof en;
export type Language = "en" | "zh";
const MESSAGES: Record<Language, Record<Key, string>> = { en, zh };

function first(): Language {
  const stored = localStorage.getItem("language");
  if (stored === "en" || stored === "zh") return stored;
  return navigator.language.startsWith("zh") ? "zh" : "en";
}

export const language = signal<Language>(first());
effect(() => {
  localStorage.setItem("language", language.value);
  document.documentElement.lang = language.value === "zh" ? "zh-CN" : "en";
});

export function isKey(name: string): name is Key {
  return name in en;
}

/** Return a message in the reader's language; `{name}` is replaced by the value of that name. */
export function t(key: Key, values: Record<string, string | number> = {}): string {
  return MESSAGES[language.value][key].replace(/\{(\w+)\}/g, (_, name: string) => String(values[name] ?? `{${name}}`));
}
