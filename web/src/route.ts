/** What is shown, as the address says it: `#/attention?layer=3&head=5`. Every view is a link. */
import { computed, signal } from "@preact/signals";

export const PAGES = [
  "start",
  "flow",
  "attention",
  "anatomy",
  "why",
  "decoder",
  "pretrain",
  "train",
  "compare",
  "data",
  "words",
  "health",
  "backprop",
  "lab",
] as const;
export type Page = (typeof PAGES)[number];

interface Route {
  page: Page;
  params: URLSearchParams;
}

function read(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?");
  const page = PAGES.find((one) => one === path) ?? "start";
  return { page, params: new URLSearchParams(query) };
}

const route = signal(read(location.hash));
addEventListener("hashchange", () => (route.value = read(location.hash)));

export const page = computed(() => route.value.page);

export function param(name: string): string | null {
  return route.value.params.get(name);
}

/** Return a whole number of the address that lies in `0 ... count - 1`. */
export function index(name: string, count: number, otherwise = 0): number {
  const value = Number.parseInt(param(name) ?? "", 10);
  return value >= 0 && value < count ? value : Math.min(otherwise, Math.max(0, count - 1));
}

type Changes = Record<string, string | number | null>;

export function address(target: Page, changes: Changes = {}): string {
  const params = new URLSearchParams(route.value.params);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") params.delete(name);
    else params.set(name, String(value));
  }
  const query = params.toString();
  return `#/${target}${query && "?"}${query}`;
}

/** Change parameters of the address; a step back in the browser undoes it. */
export function go(changes: Changes, target: Page = page.value): void {
  location.hash = address(target, changes);
}
