/** The vocabulary as a map, and the nearest neighbours of a piece. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { getJson } from "../api";
import { t } from "../language";
import { go, param } from "../route";
import { attempt, meta, trace } from "../state";
import { theme } from "../theme";
import { Bars } from "../ui/bars";
import { percent, whole } from "../ui/format";
import { useTensors } from "../ui/load";
import { CopyPython } from "../ui/sum";

interface Vocabulary {
  pieces: string[];
  explained: number[];
  features: number;
}

interface Near {
  id: number;
  token: string;
  neighbours: { id: number; token: string; score: number }[];
  python: string;
}

const MATCHES = 30;
const SIDE = 640;
const MARGIN = 24;

export function Words() {
  const [vocabulary, setVocabulary] = useState<Vocabulary | null>(null);
  const isReady = meta.value !== null;
  useEffect(() => {
    if (isReady) attempt(getJson<Vocabulary>("vocabulary")).then(setVocabulary);
  }, [isReady]);
  const tensors = useTensors(vocabulary && "vocabulary/map");
  const ids = tensors?.get("ids")?.values;
  const places = tensors?.get("places")?.values;
  const chosen = chosenOf(vocabulary);
  const near = useNear(chosen);
  return (
    <>
      <h1>{t("page.words")}</h1>
      {vocabulary && (
        <p class="lead">
          {t("words.lead", {
            count: whole(vocabulary.pieces.length),
            features: vocabulary.features,
            share: percent(vocabulary.explained.reduce((sum, one) => sum + one, 0)),
          })}
        </p>
      )}
      {vocabulary && <Search pieces={vocabulary.pieces} />}
      <div class="split">
        {vocabulary && ids && places && <Projector pieces={vocabulary.pieces} ids={ids} places={places} near={near} />}
        <aside>{near ? <Neighbours near={near} /> : <p class="hint">{t("words.hint")}</p>}</aside>
      </div>
    </>
  );
}

/** The piece in the address; without one, the first token of the text that is a word. */
function chosenOf(vocabulary: Vocabulary | null): number | null {
  if (!vocabulary) return null;
  const asked = Number.parseInt(param("piece") ?? "", 10);
  if (asked >= 0 && asked < vocabulary.pieces.length) return asked;
  const found = trace.value;
  const place = found?.tokens.findIndex((token) => /^\p{L}{2,}$|^\p{Script=Han}$/u.test(token)) ?? -1;
  return place >= 0 ? found!.ids[place]! : null;
}

function useNear(chosen: number | null): Near | null {
  const [near, setNear] = useState<Near | null>(null);
  useEffect(() => {
    if (chosen === null) return;
    const controller = new AbortController();
    attempt(getJson<Near>(`vocabulary/near?id=${chosen}`, controller.signal)).then((found) => {
      if (found && !controller.signal.aborted) setNear(found);
    });
    return () => controller.abort();
  }, [chosen]);
  return near;
}

function Search({ pieces }: { pieces: string[] }) {
  const [typed, setTyped] = useState("");
  const found = useMemo(() => (typed ? matches(pieces, typed) : []), [pieces, typed]);
  return (
    <>
      <label class="picker wide">
        {t("words.search")}
        <input type="search" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
      </label>
      {typed && (
        <ol class="tokens" aria-live="polite">
          {found.length === 0 && <li class="hint">{t("words.nothing")}</li>}
          {found.map((id) => (
            <li>
              <button type="button" onClick={() => go({ piece: id })}>
                <span>{pieces[id]}</span> <small>{id}</small>
              </button>
            </li>
          ))}
        </ol>
      )}
    </>
  );
}

/** Pieces that hold what was typed: the same first, then those that begin with it, then the rest. */
function matches(pieces: string[], typed: string): number[] {
  const wanted = typed.toLowerCase();
  const rank = (piece: string): number => {
    const bare = piece.replace(/^##/, "").toLowerCase();
    return bare === wanted ? 0 : bare.startsWith(wanted) ? 1 : bare.includes(wanted) ? 2 : 3;
  };
  return pieces
    .map((piece, id) => ({ id, rank: rank(piece) }))
    .filter((one) => one.rank < 3)
    .sort((a, b) => a.rank - b.rank || a.id - b.id)
    .slice(0, MATCHES)
    .map((one) => one.id);
}

function Neighbours({ near }: { near: Near }) {
  const byName = new Map(near.neighbours.map((one) => [`${one.token} · ${one.id}`, one]));
  return (
    <section class="sum">
      <h2>{t("words.near", { token: near.token })}</h2>
      <Bars
        bars={[...byName].map(([label, one]) => ({ label, score: one.score }))}
        largest={1}
        onChoose={(label) => go({ piece: byName.get(label)!.id })}
      />
      <p class="tools">
        <CopyPython code={near.python} />
      </p>
    </section>
  );
}

interface ProjectorProps {
  pieces: string[];
  ids: ArrayLike<number>;
  places: ArrayLike<number>;
  near: Near | null;
}

/** Every piece as a point on one canvas; the chosen piece and its neighbours are named. */
function Projector({ pieces, ids, places, near }: ProjectorProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [zoom, setZoom] = useState({ scale: 1, x: 0, y: 0 });
  const [under, setUnder] = useState<number | null>(null);
  const reach = useMemo(() => [reachOf(places, 0), reachOf(places, 1)] as const, [places]);
  const half = SIDE / 2;
  const at = (place: number): [number, number] => [
    half + (places[2 * place]! / reach[0] - zoom.x) * (half - MARGIN) * zoom.scale,
    half - (places[2 * place + 1]! / reach[1] - zoom.y) * (half - MARGIN) * zoom.scale,
  ];
  const placeOf = useMemo(() => new Map(Array.from(ids, (id, place) => [id, place])), [ids]);
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context) return;
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string) => style.getPropertyValue(name).trim();
    context.clearRect(0, 0, SIDE, SIDE);
    context.fillStyle = colour("--quiet");
    context.globalAlpha = 0.45;
    for (let place = 0; place < ids.length; place++) {
      const [x, y] = at(place);
      if (x >= 0 && y >= 0 && x <= SIDE && y <= SIDE) context.fillRect(x - 1, y - 1, 2, 2);
    }
    context.globalAlpha = 1;
    context.font = `13px ${getComputedStyle(canvas.current!).fontFamily}`;
    const named = near ? [...near.neighbours, near] : [];
    for (const one of named) {
      const place = placeOf.get(one.id);
      if (place === undefined) continue;
      const [x, y] = at(place);
      context.fillStyle = one === near ? colour("--wrong") : colour("--accent");
      context.fillRect(x - 3, y - 3, 6, 6);
      context.fillText(one.token, x + 5, y - 4);
    }
  }, [ids, places, near, zoom, theme.value]);

  function nearestTo(event: MouseEvent): number | null {
    const box = canvas.current!.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * SIDE;
    const y = ((event.clientY - box.top) / box.height) * SIDE;
    let best: number | null = null;
    let least = 15 ** 2;
    for (let place = 0; place < ids.length; place++) {
      const [px, py] = at(place);
      const distance = (px - x) ** 2 + (py - y) ** 2;
      if (distance < least) [best, least] = [place, distance];
    }
    return best;
  }

  function zoomBy(factor: number): void {
    const place = near && placeOf.get(near.id);
    const focus = place === null || place === undefined ? null : place;
    const next = Math.max(1, Math.min(64, zoom.scale * factor));
    const centre =
      next > 1 && focus !== null ? [places[2 * focus]! / reach[0], places[2 * focus + 1]! / reach[1]] : [0, 0];
    setZoom({ scale: next, x: centre[0]!, y: centre[1]! });
  }

  return (
    <figure class="projector">
      <p class="tools">
        <button type="button" onClick={() => zoomBy(2)}>
          {t("words.closer")}
        </button>
        <button type="button" disabled={zoom.scale === 1} onClick={() => zoomBy(1 / 2)}>
          {t("words.further")}
        </button>
        <output>{under === null ? "" : pieces[ids[under]!]}</output>
      </p>
      <canvas
        ref={canvas}
        width={SIDE}
        height={SIDE}
        role="img"
        aria-label={t("words.map", { count: whole(ids.length) })}
        onMouseMove={(event) => setUnder(nearestTo(event))}
        onClick={(event) => {
          const place = nearestTo(event);
          if (place !== null) go({ piece: ids[place]! });
        }}
      />
    </figure>
  );
}

/** How far the places go in one direction, but for one in a hundred: a few far ones do not press the rest together. */
function reachOf(places: ArrayLike<number>, axis: 0 | 1): number {
  const sizes = Float32Array.from({ length: places.length / 2 }, (_, place) =>
    Math.abs(places[2 * place + axis]!),
  ).sort();
  return sizes[Math.floor(sizes.length * 0.99)] || 1;
}
