/** Save what is on the page as one HTML file that needs nothing else. */
import { language, t } from "../language";
import { trace } from "../state";

export function Share() {
  const id = trace.value?.id;
  if (!id) return null;
  return (
    <a class="button" href={`api/trace/${id}/share?language=${language.value}`} download="glassbert.html">
      {t("share.save")}
    </a>
  );
}
