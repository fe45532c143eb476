/** Everything the page asks the server for. Addresses are relative: the page lies below a random token. */
import { readTensors, type Tensor } from "./safetensors";
import type { Words } from "./ui/words";

interface Refusal {
  status: number;
  error: string;
  code: string | null;
  words: Words | null;
}

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    /** Names the message in the reader's language, if there is one. */
    readonly code: string | null = null,
    /** The message in both languages, if the server has it so. */
    readonly words: Words | null = null,
  ) {
    super(message);
  }
}

/** How long to wait before asking again a server that is still loading its model. */
const RETRY_MS = 300;

async function answer(path: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(`api/${path}`, init);
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiError(0, "");
  }
  if (response.ok) return response;
  if (response.status === 503) {
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    return answer(path, init);
  }
  const body: Partial<Refusal> = await response.json().catch(() => ({}));
  throw new ApiError(response.status, body.error ?? response.statusText, body.code, body.words);
}

export async function getJson<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await answer(path, { signal: signal ?? null })).json();
}

export async function postJson<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const headers = { "content-type": "application/json" };
  return (await answer(path, { method: "POST", headers, body: JSON.stringify(body), signal: signal ?? null })).json();
}

/** Post and hear how far the work is; giving up the signal ends the work on the server too. */
export async function postForProgress<T>(
  path: string,
  body: unknown,
  signal: AbortSignal,
  onProgress: (share: number) => void,
): Promise<T> {
  const headers = { "content-type": "application/json", accept: "text/event-stream" };
  const response = await answer(path, { method: "POST", headers, body: JSON.stringify(body), signal });
  let result: T | undefined;
  for await (const { name, data } of eventsOf(response.body!)) {
    if (name === "progress") onProgress((data as { share: number }).share);
    else if (name === "result") result = data as T;
    else if (name === "problem") {
      const { status, error, code, words } = data as Refusal;
      throw new ApiError(status, error, code, words);
    }
  }
  if (result === undefined) throw new ApiError(0, "");
  return result;
}

async function* eventsOf(body: ReadableStream<Uint8Array>): AsyncGenerator<{ name: string; data: unknown }> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let waiting = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (waiting + decoder.decode(value, { stream: true })).split("\n\n");
    waiting = parts.pop()!;
    for (const part of parts) {
      const found = /^event: (.*)\ndata: ([^]*)$/.exec(part);
      if (found) yield { name: found[1]!, data: JSON.parse(found[2]!) };
    }
  }
}

/** The tensors fetched last, up to this many bytes, with what the browser keeps beside each tensor. */
const CACHE_BYTES = 64e6;
const TENSOR_BYTES = 512;
const cache = new Map<string, { tensors: Map<string, Tensor>; size: number }>();
let cached = 0;

/** Forget all tensors: another model has others at the same address. */
export function forgetTensors(): void {
  cache.clear();
  cached = 0;
}

export async function getTensors(path: string): Promise<Map<string, Tensor>> {
  const found = cache.get(path);
  if (found) {
    cache.delete(path);
    cache.set(path, found);
    return found.tensors;
  }
  const bytes = await (await answer(path, {})).arrayBuffer();
  const tensors = readTensors(bytes);
  const taken = bytes.byteLength + TENSOR_BYTES * tensors.size;
  cached += taken - (cache.get(path)?.size ?? 0);
  cache.set(path, { tensors, size: taken });
  for (const [oldest, { size }] of cache) {
    if (cached <= CACHE_BYTES || oldest === path) break;
    cache.delete(oldest);
    cached -= size;
  }
  return tensors;
}
