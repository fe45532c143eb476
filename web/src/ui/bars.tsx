/** Bars with a label and a number each: answers of the model, distances, shares. */
import { t, type Key } from "../language";
import type { Place } from "../state";
import { digits, percent } from "./format";

interface Bar {
  label: string;
  score: number;
}

/** Bars of probabilities as percent; of other numbers, with `largest`, as digits. */
export function Bars(props: {
  bars: Bar[];
  largest?: number;
  chosen?: string | undefined;
  onChoose?: (label: string) => void;
}) {
  const { bars, largest, chosen, onChoose } = props;
  return (
    <ol class={onChoose ? "bars named" : "bars"}>
      {bars.map((bar) => (
        <li>
          <span class="label">
            {onChoose ? (
              <button
                type="button"
                class="link"
                aria-pressed={bar.label === chosen}
                onClick={() => onChoose(bar.label)}
              >
                {bar.label}
              </button>
            ) : (
              bar.label
            )}
          </span>
          <span class={bar.score < 0 ? "bar negative" : "bar"}>
            <span style={{ width: percent(Math.min(1, Math.abs(bar.score) / (largest ?? 1))) }} />
          </span>
          <span class="score" data-value={bar.score}>
            {largest === undefined ? percent(bar.score) : digits(bar.score)}
          </span>
        </li>
      ))}
    </ol>
  );
}

/** What the model answers, place by place. */
export function Places(props: {
  places: Place[];
  heading?: "h2" | "h3";
  children?: (place: Place) => preact.ComponentChild;
}) {
  const { places, heading: Heading = "h2", children } = props;
  return (
    <div class="places">
      {places.map((place) => (
        <section>
          <Heading>{t(`place.${place.kind}` as Key, { token: place.token ?? "" })}</Heading>
          {place.said === null ? (
            <Bars bars={place.bars} />
          ) : (
            <p class="said">{typeof place.said === "number" ? digits(place.said) : <q>{place.said}</q>}</p>
          )}
          {children?.(place)}
        </section>
      ))}
    </div>
  );
}
