/**
 * Builds an ONNX model from a packed one. Word vectors, which make up most of the model, stay at 4 bits. The layers'
 * matrices are converted to 8 bits, because the runtime multiplies these twice as fast. The output is the mean of all
 * token states, because the model was trained for this.
 */
import { encodeModel, type Node, type Parts, type Tensor } from './onnx-file.ts';
import { blockBytes, blockSize, type PackedModel } from './read-packed.ts';

/** The domain of operators that only this ONNX runtime supports. */
const domain = 'com.microsoft';

export function buildOnnx(model: PackedModel): Parts {
  const { hidden, inner, layers, heads, vocabulary, positions, epsilon } = model;
  const nodes: Node[] = [];
  const tensors: Tensor[] = [];

  const addNode = (
    operator: string,
    inputs: readonly string[],
    output: string,
    attributes: Node['attributes'] = {},
    own = false,
  ): string => {
    nodes.push({ operator, inputs, output, attributes, ...(own && { domain }) });
    return output;
  };
  const addOwn = (operator: string, inputs: readonly string[], output: string, attributes: Node['attributes'] = {}): string =>
    addNode(operator, inputs, output, attributes, true);
  const addTensor = (name: string, type: Tensor['type'], dims: readonly number[], data: Uint8Array): string => {
    tensors.push({ name, type, dims, data });
    return name;
  };
  const addVector = (...names: readonly string[]): string => {
    const data = Buffer.concat(names.map((name) => model.tensor(name)));
    return addTensor(names.join(), 'float', [data.byteLength / 4], data);
  };
  const multiply = (input: string, name: string, from: number, to: number): string => {
    const { weights, scales } = toBytes(unpack(model.tensor(name)), from, to);
    const matrix = addTensor(name, 'int8', [from, to], weights);
    return addOwn('DynamicQuantizeMatMul', [input, matrix, addTensor(`${name}.scales`, 'float', [to], scales)], `${name}.product`);
  };
  /** Adds a node that sums two inputs and a bias and then applies layer normalization. */
  const normalize = (input: string, added: string, name: string, bias: string): string =>
    addOwn('SkipLayerNormalization', [input, added, addVector(`${name}.w`), addVector(`${name}.b`), addVector(bias)], `${name}.output`, {
      epsilon: { float: epsilon },
    });

  const { pairs, scales } = toPairs(unpack(model.tensor('emb.word')));
  const words = addTensor('words', 'int4', [vocabulary, hidden], pairs);
  const wordScales = addTensor('words.scales', 'float', [vocabulary, hidden / blockSize], scales);
  const rows = { gather_axis: { int: 0 }, quantize_axis: { int: 1 }, block_size: { int: blockSize } };
  const states = addOwn('GatherBlockQuantized', [words, 'input_ids', wordScales], 'word_states', rows);
  const zero = addTensor('zero', 'int64', [1], new Uint8Array(8));
  const length = addNode('Shape', ['input_ids'], 'length', { start: { int: 1 } });
  const positionRows = addRow(model.tensor('emb.pos'), model.tensor('emb.type'), hidden);
  const allPositions = addTensor('positions', 'float', [positions, hidden], positionRows);
  const usedPositions = addNode('Slice', [allPositions, zero, length, zero], 'used_positions');
  const placed = addNode('Add', [states, usedPositions], 'placed_states');
  let state = addNode('LayerNormalization', [placed, addVector('emb.ln.w'), addVector('emb.ln.b')], 'l', { epsilon: { float: epsilon } });

  for (let layer = 0; layer < layers; layer += 1) {
    const name = (part: string): string => `l${layer}.${part}`;
    const parts = ['q', 'k', 'v'].map((part) => multiply(state, name(`${part}.w`), hidden, hidden));
    const bias = addVector(name('q.b'), name('k.b'), name('v.b'));
    const attended = addOwn('MultiHeadAttention', [...parts, bias], name('attended'), { num_heads: { int: heads } });
    const mixed = normalize(state, multiply(attended, name('ao.w'), hidden, hidden), name('aln'), name('ao.b'));
    const widened = addOwn('BiasGelu', [multiply(mixed, name('fi.w'), hidden, inner), addVector(name('fi.b'))], name('widened'));
    state = normalize(mixed, multiply(widened, name('fo.w'), inner, hidden), name('oln'), name('fo.b'));
  }
  const axis = addTensor('axis', 'int64', [1], new Uint8Array(BigInt64Array.of(1n).buffer));
  addNode('ReduceMean', [state, axis], 'mean');
  return encodeModel({
    nodes,
    tensors,
    inputs: [{ name: 'input_ids', type: 'int64', dims: ['texts', 'tokens'] }],
    outputs: [{ name: 'mean', type: 'float', dims: ['texts', 1, hidden] }],
    versions: { '': 21, [domain]: 1 },
  });
}

interface Unpacked {
  /** Integers from -8 to 7. */
  readonly weights: Int8Array;
  readonly scales: Float32Array;
}

function unpack(blocks: Buffer): Unpacked {
  const scales = new Float32Array(blocks.byteLength / blockBytes);
  const weights = new Int8Array(scales.length * blockSize);
  const view = new DataView(blocks.buffer, blocks.byteOffset, blocks.byteLength);
  for (let block = 0; block < scales.length; block += 1) {
    const from = block * blockBytes;
    scales[block] = view.getFloat16(from, true);
    // Each byte contains two 4-bit weights. The lower half of byte n is weight n, and the upper half is weight n + 16.
    for (let n = 0; n < blockSize / 2; n += 1) {
      const byte = view.getUint8(from + 2 + n);
      weights[block * blockSize + n] = (byte & 0x0f) - 8;
      weights[block * blockSize + blockSize / 2 + n] = (byte >> 4) - 8;
    }
  }
  return { weights, scales };
}

function toPairs({ weights, scales }: Unpacked): { readonly pairs: Uint8Array; readonly scales: Uint8Array } {
  const pairs = new Uint8Array(weights.length / 2);
  for (let pair = 0; pair < pairs.length; pair += 1)
    pairs[pair] = ((weights[2 * pair] ?? 0) & 0x0f) | (((weights[2 * pair + 1] ?? 0) & 0x0f) << 4);
  return { pairs, scales: new Uint8Array(scales.buffer) };
}

/** Transposes a matrix so that it has `to` columns, and quantizes it to 8 bits with one scale per column. */
function toBytes({ weights, scales }: Unpacked, from: number, to: number): { readonly weights: Uint8Array; readonly scales: Uint8Array } {
  const bytes = new Int8Array(weights.length);
  const columns = new Float32Array(to);
  const value = (at: number): number => (weights[at] ?? 0) * (scales[Math.floor(at / blockSize)] ?? 0);
  for (let column = 0; column < to; column += 1) {
    let largest = 0;
    for (let row = 0; row < from; row += 1) largest = Math.max(largest, Math.abs(value(column * from + row)));
    columns[column] = largest / 127;
    for (let row = 0; row < from; row += 1) bytes[row * to + column] = Math.round((value(column * from + row) * 127) / largest);
  }
  return { weights: new Uint8Array(bytes.buffer), scales: new Uint8Array(columns.buffer) };
}

/**
 * Adds the token type embedding to each row of `table`. `added` contains an embedding for every token type, but all of
 * our tokens have the same type, so we only use the first one.
 */
function addRow(table: Buffer, added: Buffer, width: number): Uint8Array {
  const sums = new Float32Array(table.byteLength / 4);
  for (let at = 0; at < sums.length; at += 1) sums[at] = table.readFloatLE(4 * at) + added.readFloatLE(4 * (at % width));
  return new Uint8Array(sums.buffer);
}
