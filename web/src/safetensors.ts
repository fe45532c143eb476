/** Read the file format of traces. Numbers are viewed where they lie, not copied. */
export interface Tensor {
  shape: number[];
  values: Float32Array | Uint8Array | Int32Array;
}

const VIEWS = { F32: Float32Array, U8: Uint8Array, I32: Int32Array } as const;

interface Entry {
  dtype: keyof typeof VIEWS;
  shape: number[];
  data_offsets: [number, number];
}

export function readTensors(bytes: ArrayBuffer): Map<string, Tensor> {
  const length = Number(new DataView(bytes).getBigUint64(0, true));
  const header: Record<string, Entry> = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 8, length)));
  const tensors = new Map<string, Tensor>();
  for (const [name, entry] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const View = VIEWS[entry.dtype];
    const [start, end] = entry.data_offsets;
    const values = new View(bytes, 8 + length + start, (end - start) / View.BYTES_PER_ELEMENT);
    tensors.set(name, { shape: entry.shape, values });
  }
  return tensors;
}
