import { language } from "../language";

/** A text in both languages, as the server sends what it says. */
export interface Words {
  en: string;
  zh: string;
}

export function said(text: Words | string): string {
  return typeof text === "string" ? text : text[language.value];
}
