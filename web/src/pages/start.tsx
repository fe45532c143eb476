/** The first page: a text, what the model makes of it, and the doors to the inside. */
import { t, type Key } from "../language";
import { address, go } from "../route";
import { isBusy, meta, trace } from "../state";
import { percent } from "../ui/format";
import { Tokens } from "../ui/tokens";

export function Start() {
  const found = trace.value;
  if (!found || !meta.value) return <h1>{t("start.title")}</h1>;
  return (
    <>
      <h1>{t("start.title")}</h1>
      <p class="lead">{t("start.lead", { model: meta.value.model })}</p>
      <Tokens tokens={found.tokens} ids={found.ids} onChoose={(token) => go({ token }, "flow")} />
      {found.truncated && <p class="warning">{t("text.truncated", { count: found.tokens.length })}</p>}
      <div class="places" aria-busy={isBusy.value}>
        {found.places.map((place) => (
          <section>
            <h2>{t(`place.${place.kind}` as Key, { token: place.token ?? "" })}</h2>
            <ol class="bars">
              {place.bars.map((bar) => (
                <li>
                  <span class="label">{bar.label}</span>
                  <span class="bar">
                    <span style={{ width: percent(Math.max(0, Math.min(1, bar.score))) }} />
                  </span>
                  <span class="score" data-value={bar.score}>
                    {percent(bar.score)}
                  </span>
                </li>
              ))}
            </ol>
            {place.token !== null && (
              <a class="next" href={address("attention", { query: place.token })}>
                {t("start.looked")}
              </a>
            )}
          </section>
        ))}
      </div>
      <ul class="doors">
        <li>
          <a href={address("flow")}>{t("page.flow")}</a>
          <p>{t("door.flow", { count: found.graph.length })}</p>
        </li>
        <li>
          <a href={address("attention")}>{t("page.attention")}</a>
          <p>{t("door.attention")}</p>
        </li>
        <li>
          <a href={address("anatomy")}>{t("page.anatomy")}</a>
          <p>{t("door.anatomy")}</p>
        </li>
      </ul>
    </>
  );
}
