/** A translator's decoder run in both ways, row by row, and the beams of its search as a tree. */
import { useEffect, useState } from "preact/hooks";
import { t } from "../language";
import { address, go, param } from "../route";
import { meta, text } from "../state";
import { Bars } from "../ui/bars";
import { digits } from "../ui/format";
import { CopyPython } from "../ui/sum";
import { BeamTree, type Beam } from "../ui/tree";
import { Progress, useWork } from "../ui/work";

interface Side {
  read: string;
  wanted: string;
  id: number;
  probability: number;
  loss: number | null;
  best: { id: number; token: string; score: number }[];
}

interface Row {
  forcing: Side | null;
  inference: Side | null;
  difference: number | null;
  python: string;
}

interface Decoded {
  source: string[];
  rows: Row[];
  largest: number;
  tolerance: number;
  teacher_loss: number;
  /** The step at which a token was forced. */
  forced: number | null;
  own_text: string;
  beam: Beam;
}

function whole(name: string): number | null {
  const value = Number.parseInt(param(name) ?? "", 10);
  return Number.isNaN(value) ? null : value;
}

export function DecoderPage() {
  const work = useWork<Decoded>("decode");
  const asked = {
    text: text.value,
    target: param("target"),
    place: whole("place"),
    forced: whole("forced"),
    beam_size: whole("beam") ?? 4,
  };
  const key = JSON.stringify(asked);
  useEffect(() => {
    if (meta.value && asked.text) void work.run(asked);
  }, [key, meta.value]);
  const found = work.found;
  return (
    <>
      <h1>{t("page.decoder")}</h1>
      <p class="lead">{t("decoder.lead")}</p>
      <Reference />
      <Progress work={work} again={asked} />
      {found && (
        <>
          <h2>{t("decoder.rows")}</h2>
          <Agreement found={found} />
          {found.forced !== null && (
            <p class="warning">
              {t("decoder.forced", { step: found.forced, token: found.rows[found.forced]?.inference?.wanted ?? "" })}{" "}
              <button type="button" onClick={() => go({ place: null, forced: null })}>
                {t("decoder.free")}
              </button>
            </p>
          )}
          <Rows found={found} />
          <p class="hint">
            {t("decoder.own", { text: found.own_text })}{" "}
            <a href={address("attention", { scope: "dec.attn", stage: "masked" })}>{t("decoder.triangle")}</a>
          </p>
          <h2>{t("decoder.beams")}</h2>
          <p class="tools">
            <label class="picker">
              {t("decoder.width")}
              <select value={asked.beam_size} onChange={(event) => go({ beam: event.currentTarget.value })}>
                {[1, 2, 3, 4, 5, 6, 7, 8].map((size) => (
                  <option value={size}>{size}</option>
                ))}
              </select>
            </label>
          </p>
          <BeamTree beam={found.beam} />
        </>
      )}
    </>
  );
}

/** The translation that teacher forcing feeds. */
function Reference() {
  const [written, setWritten] = useState(param("target") ?? "");
  const inAddress = param("target") ?? "";
  useEffect(() => setWritten(inAddress), [inAddress]);
  function onSubmit(event: Event): void {
    event.preventDefault();
    go({ target: written, place: null, forced: null });
  }
  return (
    <form class="reference" onSubmit={onSubmit}>
      <label>
        {t("decoder.target")}
        <input value={written} onInput={(event) => setWritten(event.currentTarget.value)} />
      </label>
      <button type="submit">{t("text.show")}</button>
    </form>
  );
}

function Agreement({ found }: { found: Decoded }) {
  const compared = found.rows.filter((row) => row.difference !== null).length;
  const agrees = found.largest <= found.tolerance;
  return (
    <p class={agrees ? "agreement" : "warning"} role="status">
      {t(agrees ? "decoder.agree" : "decoder.differ", { rows: compared })}
      <b data-value={found.largest}>{digits(found.largest)}</b>
    </p>
  );
}

function Rows({ found }: { found: Decoded }) {
  const [shown, setShown] = useState(0);
  const chosen = found.rows[Math.min(shown, found.rows.length - 1)];
  return (
    <>
      <div class="scroll">
        <table class="numbers decoder">
          <thead>
            <tr>
              <th scope="col" rowSpan={2}>
                {t("decoder.step")}
              </th>
              <th scope="colgroup" colSpan={4}>
                {t("decoder.teacher")}
              </th>
              <th scope="colgroup" colSpan={3}>
                {t("decoder.inference")}
              </th>
              <th scope="col" rowSpan={2}>
                {t("decoder.difference")}
              </th>
            </tr>
            <tr>
              <th scope="col">{t("decoder.reads")}</th>
              <th scope="col">{t("decoder.wanted")}</th>
              <th scope="col">{t("hidden.probability")}</th>
              <th scope="col">{t("hidden.loss")}</th>
              <th scope="col">{t("decoder.reads")}</th>
              <th scope="col">{t("decoder.writes")}</th>
              <th scope="col">{t("hidden.probability")}</th>
            </tr>
          </thead>
          <tbody>
            {found.rows.map((row, place) => (
              <tr class={row.difference === null ? "apart" : row.difference <= found.tolerance ? "agrees" : "differs"}>
                <th scope="row">
                  <button type="button" class="link" aria-pressed={row === chosen} onClick={() => setShown(place)}>
                    {place}
                  </button>
                </th>
                <Cells side={row.forcing} withLoss isForced={false} />
                <Cells side={row.inference} withLoss={false} isForced={place === found.forced} />
                <td class="difference" data-value={row.difference}>
                  {row.difference === null ? t("decoder.other_prefix") : digits(row.difference)}
                </td>
              </tr>
            ))}
          </tbody>
          <tfoot>
            <tr>
              <th scope="row" colSpan={4}>
                {t("decoder.loss")}
              </th>
              <td data-value={found.teacher_loss}>{digits(found.teacher_loss)}</td>
              <td colSpan={4} />
            </tr>
          </tfoot>
        </table>
      </div>
      {chosen && <Choices row={chosen} place={Math.min(shown, found.rows.length - 1)} />}
    </>
  );
}

function Cells({ side, withLoss, isForced }: { side: Side | null; withLoss: boolean; isForced: boolean }) {
  if (!side) return <td colSpan={withLoss ? 4 : 3} class="empty" />;
  return (
    <>
      <td>{side.read}</td>
      <td class={isForced ? "forced" : ""}>{side.wanted}</td>
      <td data-value={side.probability}>{digits(side.probability)}</td>
      {withLoss && <td data-value={side.loss}>{digits(side.loss ?? NaN)}</td>}
    </>
  );
}

/** The likeliest tokens of a row in both ways; each can be forced. */
function Choices({ row, place }: { row: Row; place: number }) {
  return (
    <section class="choices card">
      <h3>{t("decoder.choices", { step: place })}</h3>
      <div class="pairs">
        {(["forcing", "inference"] as const).map((name) => (
          <div data-side={name}>
            <p>{t(name === "forcing" ? "decoder.teacher" : "decoder.inference")}</p>
            <Bars
              bars={row[name]?.best.map((one) => ({ label: one.token, score: one.score })) ?? []}
              onChoose={(token) => go({ place, forced: row[name]!.best.find((one) => one.token === token)!.id })}
            />
          </div>
        ))}
      </div>
      <p class="hint">{t("decoder.force")}</p>
      <CopyPython code={row.python} />
    </section>
  );
}
