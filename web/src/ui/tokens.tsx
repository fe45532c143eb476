/** The pieces of a text with their ids; one may be chosen. */
interface Props {
  tokens: string[];
  ids?: number[];
  chosen?: number;
  onChoose?: (token: number) => void;
}

export function Tokens({ tokens, ids, chosen, onChoose }: Props) {
  return (
    <ol class="tokens">
      {tokens.map((token, place) => (
        <li>
          <button type="button" aria-pressed={place === chosen} onClick={() => onChoose?.(place)}>
            <span data-piece={token}>{token}</span>
            {ids && <small>{ids[place]}</small>}
          </button>
        </li>
      ))}
    </ol>
  );
}
