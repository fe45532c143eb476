/** The model, the text under the glass and its trace. The text lives in the address. */
import { computed, effect, signal } from "@preact/signals";
import { ApiError, getJson, postJson } from "./api";
import { t } from "./language";
import { param } from "./route";

export interface Meta {
  model: string;
  version: string;
  kind: "bert" | "translator";
  config: Record<string, unknown>;
  example: { text: string; pair: string | null };
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

/** A place where the model answers, its likeliest answers first. */
export interface Place {
  kind: "mlm" | "nsp" | "label" | "answer" | "span" | "translation";
  token: number | null;
  bars: { label: string; score: number }[];
}

const RETRY_MS = 300;

export const meta = signal<Meta | null>(null);
export const trace = signal<Trace | null>(null);
/** One line for the reader when the last request failed. */
export const problem = signal<string | null>(null);
export const isBusy = signal(false);

export const text = computed(() => param("text") ?? meta.value?.example.text ?? "");
export const pair = computed(() => {
  if (param("text") === null) return meta.value?.example.pair ?? "";
  return param("pair") ?? "";
});
export const steps = computed(() => new Map(trace.value?.graph.map((step) => [step.name, step])));
export const numHeads = computed(() => trace.value?.graph.find((step) => step.dims[1] === "head")?.shape[1] ?? 0);

export function messageOf(error: unknown): string {
  if (!(error instanceof ApiError)) return String(error);
  if (error.status === 0) return t("error.gone");
  if (error.status === 403) return t("error.token");
  return error.message;
}

/** Ask for something; what went wrong is shown above the page. */
export async function attempt<T>(work: Promise<T>): Promise<T | null> {
  try {
    const value = await work;
    problem.value = null;
    return value;
  } catch (error) {
    if (!(error instanceof DOMException && error.name === "AbortError")) problem.value = messageOf(error);
    return null;
  }
}

/** Ask what is on the page; the server says 503 as long as the model is being loaded. */
export async function start(): Promise<void> {
  try {
    meta.value = await getJson<Meta>("meta");
    problem.value = null;
  } catch (error) {
    problem.value = messageOf(error);
    if (error instanceof ApiError && error.status === 503) setTimeout(() => void start(), RETRY_MS);
  }
}

// The newest text wins: a request that is under way for an older one is cancelled, here and on the server.
effect(() => {
  const asked = { text: text.value, pair: pair.value || null };
  if (!meta.value || (trace.peek()?.text === asked.text && trace.peek()?.pair === asked.pair)) return;
  const controller = new AbortController();
  isBusy.value = true;
  attempt(postJson<Trace>("trace", asked, controller.signal)).then((found) => {
    if (controller.signal.aborted) return;
    isBusy.value = false;
    if (found) trace.value = found;
  });
  return () => controller.abort();
});
