/** Long work on the server: how far it is, and a way to end it. */
import { useEffect, useRef, useState } from "preact/hooks";
import { postForProgress } from "../api";
import { t } from "../language";
import { attempt } from "../state";
import { percent } from "./format";

export interface Work<T> {
  found: T | null;
  /** How much is done; null when nothing is under way. */
  share: number | null;
  isCancelled: boolean;
  run: (body: unknown) => Promise<void>;
  cancel: () => void;
}

/** The newest request wins: an older one is ended, here and on the server; so is one whose page is left. */
export function useWork<T>(path: string): Work<T> {
  const [found, setFound] = useState<T | null>(null);
  const [share, setShare] = useState<number | null>(null);
  const [isCancelled, setIsCancelled] = useState(false);
  const newest = useRef<AbortController | null>(null);
  useEffect(() => () => newest.current?.abort(), []);
  async function run(body: unknown): Promise<void> {
    newest.current?.abort();
    const own = (newest.current = new AbortController());
    setShare(0);
    setIsCancelled(false);
    const onProgress = (now: number) => newest.current === own && setShare(now);
    const result = await attempt(postForProgress<T>(path, body, own.signal, onProgress));
    if (newest.current !== own) return;
    setShare(null);
    setFound(result);
  }
  function cancel(): void {
    newest.current?.abort();
    newest.current = null;
    setShare(null);
    setFound(null); // it answered an earlier question
    setIsCancelled(true);
  }
  return { found, share, isCancelled, run, cancel };
}

/** How far the work is. Where nothing else on the page begins it, `again` is what to ask after it was cancelled. */
export function Progress({ work, again }: { work: Work<unknown>; again?: unknown }) {
  const { share, isCancelled, run, cancel } = work;
  if (share === null && isCancelled && again !== undefined)
    return (
      <p class="progress">
        <button type="button" onClick={() => void run(again)}>
          {t("work.again")}
        </button>
      </p>
    );
  if (share === null) return null;
  return (
    <p class="progress" role="status">
      <progress value={share || undefined} max={1} aria-label={t("lab.running")} />
      <span>{share > 0 ? percent(share) : t("lab.running")}</span>
      <button type="button" onClick={cancel}>
        {t("work.cancel")}
      </button>
    </p>
  );
}
