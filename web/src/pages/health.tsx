/** What the doctor says of the model: one verdict for each check. */
import { useEffect, useState } from "preact/hooks";
import { getJson } from "../api";
import { t, type Key } from "../language";
import { attempt } from "../state";

interface Diagnosis {
  model: string;
  faults: number;
  warnings: number;
  verdicts: { check: string; state: "ok" | "warn" | "fault" | "skipped"; finding: string; advice: string }[];
}

export function Health() {
  const [found, setFound] = useState<Diagnosis | null>(null);
  useEffect(() => {
    attempt(getJson<Diagnosis>("health")).then(setFound);
  }, []);
  return (
    <>
      <h1>{t("page.health")}</h1>
      <p class="lead">{t("health.lead")}</p>
      {!found && <p class="hint">{t("lab.running")}</p>}
      {found && (
        <>
          <p class="total">{t("health.total", { faults: found.faults, warnings: found.warnings })}</p>
          <ul class="verdicts">
            {found.verdicts.map((one) => (
              <li class={one.state}>
                <b>{t(`health.${one.state}` as Key)}</b> <code>{one.check}</code>
                <p>
                  {one.finding}
                  {one.advice && ` → ${one.advice}`}
                </p>
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}
