/**
 * Computes vectors with the ONNX runtime. The model was trained to use the state of the first token, scaled to length
 * 1.
 *
 * We embed one text at a time. The 8-bit model scales its numbers by the largest number in a batch, so in a batch the
 * vector of a text would depend on the other texts (measured: elements differ by 0.016). A batch isn't any faster per
 * text either.
 */
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { Tokenizer } from '@huggingface/tokenizers';
import { localModelMaxTokens } from '../core/local-model.ts';
import type { EmbedderFiles } from './find-files.ts';

export interface Embedding {
  readonly values: Float32Array;
  /** The number of tokens that the model has read. */
  readonly tokens: number;
}

export type Embed = (text: string) => Promise<Embedding>;

/**
 * The part of the runtime that we use. The runtime is downloaded rather than a dependency, so we don't have its types.
 */
interface Runtime {
  readonly InferenceSession: { create(path: string, options: object): Promise<Session> };
  readonly Tensor: new (type: 'int64', data: BigInt64Array, dims: readonly number[]) => object;
}
interface Session {
  run(inputs: Readonly<Record<string, object>>): Promise<Readonly<Record<string, { data: Float32Array; dims: readonly number[] }>>>;
}

/** About 2,500 characters of English text fill the window. The tokenizer takes 1 s for a million. */
const maxCharacters = 10_000;

/** Loads the model, which takes about half a second. */
export async function loadModel({ weights, tokenizer, runtime }: EmbedderFiles): Promise<Embed> {
  const { InferenceSession, Tensor }: Runtime = createRequire(join(runtime, 'package.json'))('onnxruntime-node');
  const textTokenizer = new Tokenizer(JSON.parse(await readFile(tokenizer, 'utf8')), {});
  // Use a single thread, so that the other cores can serve calls.
  const session = await InferenceSession.create(weights, { intraOpNumThreads: 1, interOpNumThreads: 1, logSeverityLevel: 3 });
  return async (text) => {
    const ids = cut(textTokenizer.encode(text.slice(0, maxCharacters).toWellFormed()).ids);
    const tensor = (fill: (index: number) => number): object =>
      new Tensor(
        'int64',
        BigInt64Array.from(ids, (_, index) => BigInt(fill(index))),
        [1, ids.length],
      );
    const { last_hidden_state: output } = await session.run({
      input_ids: tensor((index) => ids[index] ?? 0),
      attention_mask: tensor(() => 1),
      token_type_ids: tensor(() => 0),
    });
    if (!output) throw new Error('the model returned no vector');
    return { values: toUnitLength(output.data.subarray(0, output.dims[2])), tokens: ids.length };
  };
}

/** Keeps the first tokens and the last one, which marks the end. */
function cut(ids: readonly number[]): readonly number[] {
  return ids.length <= localModelMaxTokens ? ids : [...ids.slice(0, localModelMaxTokens - 1), ...ids.slice(-1)];
}

function toUnitLength(values: Float32Array): Float32Array {
  const length = Math.hypot(...values);
  return values.map((value) => value / length);
}
