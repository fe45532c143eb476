/** The gradients of the real model for the text above: how strongly the loss pulls at each weight. */
import { useEffect, useState } from "preact/hooks";
import { getJson, postJson } from "../api";
import { t } from "../language";
import { go, param } from "../route";
import { attempt, meta, pair, text } from "../state";
import { Bars } from "../ui/bars";
import { digits } from "../ui/format";
import { useTensors } from "../ui/load";
import { CopyPython } from "../ui/sum";

interface Found {
  id: string;
  loss: number;
  target: string;
  weights: { name: string; shape: number[]; gradient: number; weight: number }[];
}

export function Gradients() {
  const [found, setFound] = useState<Found | null>(null);
  const target = param("target");
  const asked = { text: text.value, pair: pair.value || null, target: target ? parsed(target) : null };
  useEffect(() => {
    if (!meta.value || !asked.text) return;
    const controller = new AbortController();
    attempt(postJson<Found>("gradients", asked, controller.signal)).then((value) => {
      if (!controller.signal.aborted) setFound(value);
    });
    return () => controller.abort();
  }, [asked.text, asked.pair, target, meta.value]);
  const chosen = found?.weights.find((one) => one.name === param("weight")) ?? null;
  return (
    <section class="gradients">
      <h2>{t("gradients.title", { model: meta.value?.model ?? "" })}</h2>
      <p class="lead">{t("gradients.lead")}</p>
      {found && (
        <>
          <p class="total">
            {t("gradients.loss")} <b data-value={found.loss}>{digits(found.loss, 6)}</b>
            {found.target && ` · ${t("gradients.target", { target: found.target })}`}
          </p>
          <div class="split long">
            <Bars
              bars={found.weights.map((one) => ({ label: one.name, score: one.gradient }))}
              largest={Math.max(...found.weights.map((one) => one.gradient), 1e-30)}
              chosen={chosen?.name}
              onChoose={(name) => go({ weight: name })}
            />
            <aside>
              {chosen ? <Weight id={found.id} weight={chosen} /> : <p class="hint">{t("gradients.hint")}</p>}
            </aside>
          </div>
        </>
      )}
    </section>
  );
}

function parsed(target: string): unknown {
  try {
    return JSON.parse(target);
  } catch {
    return target;
  }
}

/** A part of a weight, each number with its gradient below it. */
function Weight({ id, weight }: { id: string; weight: Found["weights"][number] }) {
  const tensors = useTensors(`trace/${id}/weight?name=${encodeURIComponent(weight.name)}`);
  const [python, setPython] = useState("");
  useEffect(() => {
    attempt(getJson<{ python: string }>(`trace/${id}/slope?name=${encodeURIComponent(weight.name)}`)).then(
      (found) => found && setPython(found.python),
    );
  }, [id, weight.name]);
  const [rows, columns, values, gradients] = ["rows", "columns", "weight", "gradient"].map((one) => tensors?.get(one));
  if (!rows || !columns || !values || !gradients) return null;
  return (
    <section class="sum">
      <h3>
        <code>{weight.name}</code> <span class="shape">{weight.shape.join(" × ")}</span>
      </h3>
      <p>{t("gradients.sizes", { gradient: digits(weight.gradient), weight: digits(weight.weight) })}</p>
      <div class="scroll" tabIndex={0}>
        <table class="numbers">
          <thead>
            <tr>
              <td />
              {Array.from(columns.values, (column) => (
                <th scope="col">{column}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {Array.from(rows.values, (row, place) => (
              <tr>
                <th scope="row">{row}</th>
                {Array.from(columns.values, (_, column) => {
                  const at = place * columns.values.length + column;
                  return (
                    <td>
                      <span data-value={values.values[at]}>{digits(values.values[at]!)}</span>
                      <br />
                      <span class="slope" data-value={gradients.values[at]}>
                        {digits(gradients.values[at]!)}
                      </span>
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="hint">{t("gradients.part")}</p>
      <p class="tools">{python && <CopyPython code={python} />}</p>
    </section>
  );
}
