/** Choose one of `count`: a block, a head. */
import { go } from "../route";

export function Picker(props: { name: string; label: string; count: number; value: number }) {
  const { name, label, count, value } = props;
  return (
    <label class="picker">
      {label}
      <select value={value} onChange={(event) => go({ [name]: event.currentTarget.value })}>
        {Array.from({ length: count }, (_, place) => (
          <option value={place}>{place}</option>
        ))}
      </select>
    </label>
  );
}
