/** The first page: a text, what the model makes of it, and the doors to the inside. */
import { t } from "../language";
import { address, go } from "../route";
import { meta, trace } from "../state";
import { Places } from "../ui/bars";
import { Share } from "../ui/share";
import { Tokens } from "../ui/tokens";
import { Tour } from "./tour";

export function Start() {
  const found = trace.value;
  if (!found || !meta.value) return <h1>{t("start.title")}</h1>;
  return (
    <>
      <h1>{t("start.title")}</h1>
      <p class="lead">{t("start.lead", { model: meta.value.model })}</p>
      <Tokens tokens={found.tokens} ids={found.ids} onChoose={(token) => go({ token }, "flow")} />
      {found.truncated && <p class="warning">{t("text.truncated", { count: found.tokens.length })}</p>}
      <Places places={found.places}>
        {(place) =>
          place.token !== null && (
            <a class="next" href={address("attention", { query: place.token })}>
              {t("start.looked")}
            </a>
          )
        }
      </Places>
      <Tour />
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
      <p class="tools">
        <Share />
      </p>
    </>
  );
}
