/**
 * Computes vectors with the ONNX runtime: the state of the first token, with length 1, as the model was trained.
 *
 * One text at a time: the 8-bit model scales its numbers by the largest of a batch, so in a batch a vector depends on the other texts (measured:
 * elements differ by 0.016), and a batch takes no less time per text.
 */
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { Tokenizer } from '@huggingface/tokenizers';
import { localModelMaxTokens } from '../core/local-model.ts';
import type { EmbedderFiles } from './find-files.ts';

export interface Embedding {
  readonly values: Float32Array;
  /** Tokens that the model has read. */
  readonly tokens: number;
}

export type Embed = (text: string) => Promise<Embedding>;

/** The part of the runtime that is used. It is fetched and not a dependency, so its types are not available. */
interface Runtime {
  readonly InferenceSession: { create(path: string, options: object): Promise<Session> };
  readonly Tensor: new (type: 'int64', data: BigInt64Array, dims: readonly number[]) => object;
}
interface Session {
  run(inputs: Readonly<Record<string, object>>): Promise<Readonly<Record<string, { data: Float32Array; dims: readonly number[] }>>>;
}

/** English text fills the window with about 2,500. The tokenizer takes 1 s for a million. */
const maxCharacters = 10_000;

/** Loads the model, in about half a second. */
export async function loadModel({ weights, tokenizer, runtime }: EmbedderFiles): Promise<Embed> {
  const { InferenceSession, Tensor }: Runtime = createRequire(join(runtime, 'package.json'))('onnxruntime-node');
  const textTokenizer = new Tokenizer(JSON.parse(await readFile(tokenizer, 'utf8')), {});
  // One thread: the other cores serve calls.
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

/** The first tokens and the last, which marks the end. */
function cut(ids: readonly number[]): readonly number[] {
  return ids.length <= localModelMaxTokens ? ids : [...ids.slice(0, localModelMaxTokens - 1), ...ids.slice(-1)];
}

function toUnitLength(values: Float32Array): Float32Array {
  const length = Math.hypot(...values);
  return values.map((value) => value / length);
}
