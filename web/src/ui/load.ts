import { useEffect, useState } from "preact/hooks";
import { getTensors } from "../api";
import type { Tensor } from "../safetensors";
import { attempt } from "../state";

/** Fetch tensors when the address changes; null until they are there. */
export function useTensors(path: string | null): Map<string, Tensor> | null {
  const [found, setFound] = useState<{ path: string; tensors: Map<string, Tensor> } | null>(null);
  useEffect(() => {
    if (!path) return;
    let isNewest = true;
    attempt(getTensors(path)).then((tensors) => {
      if (isNewest && tensors) setFound({ path, tensors });
    });
    return () => {
      isNewest = false;
    };
  }, [path]);
  return found && found.path === path ? found.tensors : null;
}
