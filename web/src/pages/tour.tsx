/** The first minute: the answer, where it looked, how a row is added up, how one query meets the keys. */
import { t } from "../language";
import { address, go, index } from "../route";
import { numHeads, steps, trace, type Trace } from "../state";
import { digits, whole } from "../ui/format";
import { useTensors } from "../ui/load";

const NUM_STEPS = 4;
const DIMENSIONS = 8;
/** What BERT-large for Chinese has; `glassbert params bert-large-zh` counts them. */
const LARGE = 324_472_832;

export function Tour() {
  const found = trace.value;
  const step = index("step", NUM_STEPS);
  if (!found || !steps.value.has("enc.0.attn.probs")) return null;
  const token = found.places.find((place) => place.token !== null)?.token ?? Math.min(1, found.tokens.length - 1);
  const Step = [Looked, Added, Met, Hidden][step]!;
  return (
    <section class="tour" aria-label={t("tour.title")}>
      <h2>{t("tour.title")}</h2>
      <p class="tools">
        {Array.from({ length: NUM_STEPS }, (_, place) => (
          <button type="button" aria-pressed={place === step} onClick={() => go({ step: place })}>
            {place + 1}
          </button>
        ))}
        <button type="button" class="primary" disabled={step === NUM_STEPS - 1} onClick={() => go({ step: step + 1 })}>
          {t("tour.next")}
        </button>
      </p>
      <Step found={found} token={token} />
    </section>
  );
}

interface StepProps {
  found: Trace;
  token: number;
}

/** The attention of the token in the last block, the mean over its heads. */
function Looked({ found, token }: StepProps) {
  const blocks = found.graph.filter((step) => /^enc\.\d+\.attn\.probs$/.test(step.name));
  const name = blocks.at(-1)!.name;
  const probs = useTensors(`trace/${found.id}/tensor?name=${name}&slice=0`)?.get(name);
  if (!probs) return null;
  const [heads = 1, rows = 0, columns = 0] = probs.shape;
  const shares = Array.from({ length: columns }, (_, key) => {
    let sum = 0;
    for (let head = 0; head < heads; head++) sum += probs.values[(head * rows + token) * columns + key]!;
    return sum / heads;
  });
  const largest = Math.max(...shares);
  return (
    <>
      <p>{t("tour.looked", { token: found.tokens[token]!, block: blocks.length - 1, heads })}</p>
      <ol class="tokens shaded" data-tour="looked">
        {found.tokens.map((one, place) => (
          <li class="for" style={{ "--s": shares[place]! / largest }}>
            <span>{one}</span>
            <small data-value={shares[place]}>{digits(shares[place]!, 3)}</small>
          </li>
        ))}
      </ol>
    </>
  );
}

/** Three embeddings add up, digit by digit. */
function Added({ found, token }: StepProps) {
  const rows = useTensors(`trace/${found.id}/rows?side=token&token=${token}`);
  if (!rows) return null;
  const parts = (["emb.token", "emb.segment", "emb.position", "emb.sum"] as const).filter((name) => rows.has(name));
  return (
    <>
      <p>{t("tour.added", { token: found.tokens[token]!, count: DIMENSIONS })}</p>
      <div class="scroll">
        <table class="numbers" data-tour="added">
          <tbody>
            {parts.map((name, place) => (
              <tr class={name === "emb.sum" ? "sum-row" : ""}>
                <th scope="row">
                  {name === "emb.sum" ? "= " : place > 0 ? "+ " : ""}
                  <code>{name}</code>
                </th>
                {Array.from(rows.get(name)!.values.slice(0, DIMENSIONS), (value) => (
                  <td data-value={value}>{digits(value)}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function useHead(found: Trace, token: number) {
  const row = (kind: string) => `trace/${found.id}/tensor?name=enc.0.attn.${kind}&slice=0,0,${token}`;
  const raw = useTensors(row("raw"))?.get("enc.0.attn.raw");
  const scores = useTensors(row("scores"))?.get("enc.0.attn.scores");
  const probs = useTensors(row("probs"))?.get("enc.0.attn.probs");
  return raw && scores && probs ? { raw, scores, probs } : null;
}

/** One query meets every key: product, scaled, share. */
function Met({ found, token }: StepProps) {
  const head = useHead(found, token);
  const values = useTensors(`trace/${found.id}/tensor?name=enc.0.attn.v`)?.get("enc.0.attn.v");
  const context = useTensors(`trace/${found.id}/rows?side=token&token=${token}`)?.get("enc.0.attn.context");
  if (!head || !values || !context) return null;
  const width = values.shape[1]!;
  return (
    <>
      <p>{t("tour.met", { token: found.tokens[token]! })}</p>
      <div class="scroll">
        <table class="numbers" data-tour="met">
          <thead>
            <tr>
              <td />
              <th scope="col">q·k</th>
              <th scope="col">q·k / √d</th>
              <th scope="col">softmax</th>
              <th scope="col">v[0]</th>
              <th scope="col">softmax × v[0]</th>
            </tr>
          </thead>
          <tbody>
            {found.tokens.map((one, key) => {
              const share = head.probs.values[key]!;
              const value = values.values[key * width]!;
              return (
                <tr>
                  <th scope="row">{one}</th>
                  {[head.raw.values[key]!, head.scores.values[key]!, share, value, share * value].map((number) => (
                    <td data-value={number}>{digits(number)}</td>
                  ))}
                </tr>
              );
            })}
          </tbody>
          <tfoot>
            <tr>
              <th scope="row" colSpan={5}>
                {t("tour.context")}
              </th>
              <td data-value={context.values[0]}>{digits(context.values[0]!)}</td>
            </tr>
          </tfoot>
        </table>
      </div>
      <p class="hint">{t("tour.type")}</p>
    </>
  );
}

/** The same scores with the future hidden, as a decoder reads. */
function Hidden({ found, token }: StepProps) {
  const head = useHead(found, token);
  if (!head) return null;
  const scores = Array.from(head.scores.values, (value, key) => (key > token ? -Infinity : value));
  const largest = Math.max(...scores);
  const powers = scores.map((value) => Math.exp(value - largest));
  const sum = powers.reduce((total, one) => total + one, 0);
  const blocks = found.graph.filter((step) => /^enc\.\d+\.attn\.probs$/.test(step.name)).length;
  return (
    <>
      <p>{t("tour.hidden", { token: found.tokens[token]! })}</p>
      <div class="scroll">
        <table class="numbers" data-tour="hidden">
          <thead>
            <tr>
              <td />
              <th scope="col">{t("attention.probs")}</th>
              <th scope="col">{t("attention.masked")}</th>
              <th scope="col">{t("tour.after")}</th>
            </tr>
          </thead>
          <tbody>
            {found.tokens.map((one, key) => (
              <tr>
                <th scope="row">{one}</th>
                {[head.probs.values[key]!, scores[key]!, powers[key]! / sum].map((number) => (
                  <td data-value={number}>{digits(number)}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p>
        {t("tour.seen", { heads: numHeads.value, blocks, large: whole(LARGE) })}{" "}
        <a class="next" href={address("anatomy", { source: "bert-large-zh" })}>
          {t("page.anatomy")}
        </a>
      </p>
    </>
  );
}
