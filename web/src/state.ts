/** The model, the text under the glass and its trace. The text lives in the address. */
import { computed, effect, signal } from "@preact/signals";
import { ApiError, forgetTensors, getJson, postJson } from "./api";
import { isKey, language, t, type Language } from "./language";
import { go, page, param, type Page } from "./route";
import { said } from "./ui/words";

export interface Meta {
  model: string;
  version: string;
  /** run: the folder of a run that has saved no model yet. */
  kind: "bert" | "translator" | "run";
  /** The run whose folder is open. */
  run?: string;
  config: Record<string, unknown>;
  /** A second model to compare with, and the file of rows, if the page was started with them. */
  other: string | null;
  data: string | null;
  /** The texts before anything is typed; `other` is what Compare puts beside the first. */
  examples: Record<Language, { text: string; other: string; pair: string | null }>;
  limits: { characters: number; tokens: number };
}

export interface Step {
  name: string;
  formula: string;
  dims: string[];
  shape: number[];
  inputs: Record<string, string>;
  weights: Record<string, string>;
  constants: Record<string, number>;
}

export interface Reading {
  tokens: string[];
  ids: number[];
  segments: number[];
  offsets: [number, number][];
  truncated: boolean;
}

export interface Trace extends Reading {
  id: string;
  text: string;
  pair: string | null;
  decoder: Reading | null;
  graph: Step[];
  places: Place[];
}

/** A place where the model answers: its likeliest answers first, or `said` where it gives one without a probability. */
export interface Place {
  kind: "mlm" | "nsp" | "label" | "answer" | "span" | "translation" | "number";
  token: number | null;
  said: string | number | null;
  bars: { label: string; score: number }[];
}

export const meta = signal<Meta | null>(null);
export const trace = signal<Trace | null>(null);
/** Why the last request failed; `messageOf` says it in one line. */
export const problem = signal<unknown>(null);
export const isBusy = signal(false);

export const text = computed(() => param("text") ?? meta.value?.examples[language.value].text ?? "");
export const pair = computed(() => {
  if (param("text") === null) return meta.value?.examples[language.value].pair ?? "";
  return param("pair") ?? "";
});
export const steps = computed(() => new Map(trace.value?.graph.map((step) => [step.name, step])));
export const numHeads = computed(() => trace.value?.graph.find((step) => step.dims[1] === "head")?.shape[1] ?? 0);

/** Some pages are about one kind of model. */
export function isListed(one: Page): boolean {
  const { kind, run } = meta.value ?? {};
  if (kind === "run") return one === "train";
  if (one === "train") return run !== undefined;
  if (one === "pretrain") return kind === "bert";
  return one !== "decoder" || kind === "translator";
}

export function messageOf(error: unknown): string {
  if (!(error instanceof ApiError)) return String(error);
  if (error.status === 0) return t("error.server");
  if (error.status === 403) return t("error.token");
  const key = `error.${error.code}`;
  return isKey(key) ? t(key, { limit: meta.value?.limits.characters ?? "" }) : said(error.words ?? error.message);
}

// Counts beginnings and failures, to know which was first.
let moment = 0;
let failedAt = 0;

/** Ask for something; what went wrong is shown above the page until something that was asked for later succeeds. */
export async function attempt<T>(work: Promise<T>): Promise<T | null> {
  const beganAt = ++moment;
  try {
    const value = await work;
    // What is wrong with the model itself stays: Health succeeds all the same.
    if (failedAt < beganAt && meta.value) problem.value = null;
    return value;
  } catch (error) {
    if (error instanceof ApiError && error.status === 410) forget();
    else if (!(error instanceof DOMException && error.name === "AbortError")) {
      failedAt = ++moment;
      problem.value = error;
    }
    return null;
  }
}

/** The server no longer has what it recorded: ask for it again, of the model that is there now. */
function forget(): void {
  trace.value = null;
  void start();
}

/** Ask what is on the page. */
export async function start(): Promise<void> {
  try {
    meta.value = await getJson<Meta>("meta");
    problem.value = null;
    if (meta.value.kind === "run" && page.value !== "train") go({}, "train");
  } catch (error) {
    problem.value = error;
  }
}

// Another model may be on the page now.
effect(() => {
  if (meta.value) forgetTensors();
});

// The newest text wins: a request that is under way for an older one is cancelled, here and on the server.
effect(() => {
  const asked = { text: text.value, pair: pair.value || null };
  if (
    !meta.value ||
    meta.value.kind === "run" ||
    (trace.peek()?.text === asked.text && trace.peek()?.pair === asked.pair)
  )
    return;
  const controller = new AbortController();
  isBusy.value = true;
  attempt(postJson<Trace>("trace", asked, controller.signal)).then((found) => {
    if (controller.signal.aborted) return;
    isBusy.value = false;
    if (found) trace.value = found;
  });
  return () => controller.abort();
});
