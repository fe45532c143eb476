/** Everything the page asks the server for. Addresses are relative: the page lies below a random token. */
import { readTensors, type Tensor } from "./safetensors";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

async function answer(path: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(`api/${path}`, init);
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiError(0, "");
  }
  if (response.ok) return response;
  const body: { error?: string } = await response.json().catch(() => ({}));
  throw new ApiError(response.status, body.error ?? response.statusText);
}

export async function getJson<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await answer(path, { signal: signal ?? null })).json();
}

export async function postJson<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const headers = { "content-type": "application/json" };
  return (await answer(path, { method: "POST", headers, body: JSON.stringify(body), signal: signal ?? null })).json();
}

/** Tensors that were fetched, the latest ones, up to so many bytes. */
const CACHE_BYTES = 64e6;
const cache = new Map<string, { tensors: Map<string, Tensor>; size: number }>();
let cached = 0;

export async function getTensors(path: string): Promise<Map<string, Tensor>> {
  const found = cache.get(path);
  if (found) {
    cache.delete(path);
    cache.set(path, found);
    return found.tensors;
  }
  const bytes = await (await answer(path, {})).arrayBuffer();
  const tensors = readTensors(bytes);
  cache.set(path, { tensors, size: bytes.byteLength });
  cached += bytes.byteLength;
  for (const [oldest, { size }] of cache) {
    if (cached <= CACHE_BYTES || oldest === path) break;
    cache.delete(oldest);
    cached -= size;
  }
  return tensors;
}
