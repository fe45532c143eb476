/** What the doctor says of the model: one verdict for each check. */
import { useEffect } from "preact/hooks";
import { isKey, t, type Key } from "../language";
import { CopyPython } from "../ui/sum";
import { said, type Words } from "../ui/words";
import { Progress, useWork } from "../ui/work";

interface Diagnosis {
  model: string;
  faults: number;
  warnings: number;
  python: string;
  verdicts: { check: string; state: "ok" | "warn" | "fault" | "skipped"; finding: Words; advice: Words }[];
}

export function Health() {
  const work = useWork<Diagnosis>("health");
  useEffect(() => void work.run({}), []);
  const found = work.found;
  return (
    <>
      <h1>{t("page.health")}</h1>
      <p class="lead">{t("health.lead")}</p>
      <Progress work={work} again={{}} />
      {found && (
        <>
          <p class="total">{t("health.total", { faults: found.faults, warnings: found.warnings })}</p>
          <ul class="verdicts">
            {found.verdicts.map((one) => (
              <li class={one.state}>
                <b>{t(`health.${one.state}` as Key)}</b> {nameOf(one.check)}
                <p>
                  {said(one.finding)}
                  {said(one.advice) && ` → ${said(one.advice)}`}
                </p>
              </li>
            ))}
          </ul>
          <p class="tools">
            <CopyPython code={found.python} />
          </p>
        </>
      )}
    </>
  );
}

/** Return what a check is called, such as `train/eval`, in the reader's language. */
function nameOf(check: string): string {
  const key = `check.${check.toLowerCase().replace(/\W+/g, "_")}`;
  return isKey(key) ? t(key) : check;
}
