/** Tokens of which some are hidden: what the model reads, the original, and what it predicts. */
import { t } from "../language";
import { Bars } from "./bars";
import { digits } from "./format";
import { CopyPython } from "./sum";

export type Fate = "special" | "left" | "mask" | "random" | "kept";

export interface Prediction {
  place: number;
  probability: number;
  loss: number | null;
  best: { token: string; score: number }[];
  python: string;
}

export const MASKED: Fate[] = ["mask", "random", "kept"];

/** How a chosen place was filled: `the -> [MASK]`. */
export function Predictions(props: {
  predictions: Prediction[];
  tokens: { token: string | null; read: string; kind: Fate }[];
  chosen: number;
  onChoose: (place: number) => void;
}) {
  const { predictions, tokens, chosen, onChoose } = props;
  const found = predictions.find((one) => one.place === chosen) ?? predictions[0];
  const sum = predictions.reduce((total, one) => total + (one.loss ?? NaN), 0);
  return (
    <div class="split">
      <div class="scroll">
        <table class="numbers predictions">
          <thead>
            <tr>
              <th scope="col">{t("hidden.place")}</th>
              <th scope="col">{t("hidden.was")}</th>
              <th scope="col">{t("hidden.read")}</th>
              <th scope="col">{t("hidden.best")}</th>
              <th scope="col">{t("hidden.probability")}</th>
              <th scope="col">{t("hidden.loss")}</th>
            </tr>
          </thead>
          <tbody>
            {predictions.map((one) => (
              <tr data-place={one.place} class={one === found ? "chosen" : ""}>
                <th scope="row">
                  <button type="button" class="link" onClick={() => onChoose(one.place)}>
                    {one.place}
                  </button>
                </th>
                <td>{tokens[one.place]?.token}</td>
                <td class={tokens[one.place]?.kind}>{tokens[one.place]?.read}</td>
                <td>{one.best[0]?.token}</td>
                <td data-value={one.probability}>{digits(one.probability)}</td>
                <td data-value={one.loss}>{digits(one.loss ?? NaN)}</td>
              </tr>
            ))}
          </tbody>
          <tfoot>
            <tr>
              <th scope="row" colSpan={5}>
                {t("hidden.mean")}
              </th>
              <td>{digits(sum / predictions.length)}</td>
            </tr>
          </tfoot>
        </table>
      </div>
      {found && (
        <aside class="card">
          <h3>{t("hidden.says", { place: found.place })}</h3>
          <Bars bars={found.best.map((one) => ({ label: one.token, score: one.score }))} />
          <CopyPython code={found.python} />
        </aside>
      )}
    </div>
  );
}
