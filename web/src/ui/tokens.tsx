/** The pieces of a text with their ids; one may be chosen. */
import { useMemo, useRef } from "preact/hooks";

interface Props {
  tokens: string[];
  ids?: number[];
  chosen?: number;
  onChoose?: (token: number) => void;
}

export function Tokens({ tokens, ids, chosen, onChoose }: Props) {
  const choose = useRef(onChoose);
  choose.current = onChoose;
  const item = (place: number, isChosen: boolean) => (
    <li>
      <button type="button" aria-pressed={isChosen} onClick={() => choose.current?.(place)}>
        <span data-piece={tokens[place]}>{tokens[place]}</span>
        {ids && <small>{ids[place]}</small>}
      </button>
    </li>
  );
  // Items that are the same objects as before are not compared again: a choice among hundreds changes two.
  const items = useMemo(() => tokens.map((_, place) => item(place, false)), [tokens, ids]);
  return (
    <ol class="tokens">
      {chosen === undefined ? items : items.map((one, place) => (place === chosen ? item(place, true) : one))}
    </ol>
  );
}
