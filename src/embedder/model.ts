/**
 * Computes vectors with the ONNX runtime. A vector is the first row of the model's output, scaled to length 1. With
 * bge-small-en-v1.5, this is the state of the first token. With multilingual-e5-small, it's the mean of all states,
 * which the model computes itself (packed/build-onnx.ts).
 *
 * We embed one text at a time. The 8-bit model scales its numbers by the largest number in a batch, so a text's vector
 * would depend on the other texts in the batch (measured: elements differ by 0.016). Batches aren't faster per text
 * anyway.
 */
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { extname, join } from 'node:path';
import { Tokenizer } from '@huggingface/tokenizers';
import { errorMessage } from '../core/error-messages.ts';
import { type LocalModel, localModelMaxTokens } from '../core/local-model.ts';
import type { EmbedderFiles } from './messages.ts';
import { createTokenizer } from './packed/unigram-tokenizer.ts';
import { RuntimeError } from './runtime-error.ts';

export interface Embedding {
  readonly values: Float32Array;
  /** How many tokens went into the model, i.e. after truncation. */
  readonly tokens: number;
}

export type Embed = (text: string) => Promise<Embedding>;

/**
 * Types for the part of the ONNX runtime's API that we use. We download the runtime instead of depending on the
 * package, so its own types aren't available.
 */
interface Runtime {
  readonly InferenceSession: { create(path: string, options: object): Promise<Session> };
  readonly Tensor: new (type: 'int64', data: BigInt64Array, dims: readonly number[]) => object;
}
interface Session {
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  run(inputs: Readonly<Record<string, object>>): Promise<Readonly<Record<string, { data: Float32Array; dims: readonly number[] }>>>;
}

/**
 * The model's window has room for about 2,500 characters of English text. Tokenizing a million characters takes 1 s.
 */
const maxCharacters = 10_000;

/** Loads the models. This takes about half a second per model. */
export async function loadModels({ models, runtime }: EmbedderFiles): Promise<ReadonlyMap<LocalModel, Embed>> {
  const loaded: Runtime = createRequire(join(runtime, 'package.json'))('onnxruntime-node');
  const embeds = new Map<LocalModel, Embed>();
  for (const paths of models) embeds.set(paths.name, await loadModel(paths, loaded));
  return embeds;
}

async function loadModel({ weights, tokenizer }: EmbedderFiles['models'][number], { InferenceSession, Tensor }: Runtime): Promise<Embed> {
  const tokenize = await loadTokenizer(tokenizer);
  // Use a single thread, so that the other cores can serve calls.
  const session = await InferenceSession.create(weights, { intraOpNumThreads: 1, interOpNumThreads: 1, logSeverityLevel: 3 });
  return async (text) => {
    const ids = cut(tokenize(text.slice(0, maxCharacters).toWellFormed()));
    const tensor = (fill: (index: number) => number): object =>
      new Tensor(
        'int64',
        BigInt64Array.from(ids, (_, index) => BigInt(fill(index))),
        [1, ids.length],
      );
    const inputs: Readonly<Record<string, () => object>> = {
      input_ids: () => tensor((index) => ids[index] ?? 0),
      attention_mask: () => tensor(() => 1),
      token_type_ids: () => tensor(() => 0),
    };
    const named = Object.fromEntries(session.inputNames.map((name) => [name, inputs[name]?.() ?? {}]));
    const outputs = await session.run(named).catch((error: unknown) => {
      throw new RuntimeError(errorMessage(error), { cause: error });
    });
    const output = outputs[session.outputNames[0] ?? ''];
    if (!output) throw new Error('expected the model to return a vector');
    return { values: toUnitLength(output.data.subarray(0, output.dims[2])), tokens: ids.length };
  };
}

async function loadTokenizer(path: string): Promise<(text: string) => readonly number[]> {
  if (extname(path) === '.bin') return createTokenizer(await readFile(path));
  const tokenizer = new Tokenizer(JSON.parse(await readFile(path, 'utf8')), {});
  return (text) => tokenizer.encode(text).ids;
}

/** Truncates the input but keeps its last token, which marks the end of the text. */
function cut(ids: readonly number[]): readonly number[] {
  return ids.length <= localModelMaxTokens ? ids : [...ids.slice(0, localModelMaxTokens - 1), ...ids.slice(-1)];
}

function toUnitLength(values: Float32Array): Float32Array {
  const length = Math.hypot(...values);
  return values.map((value) => value / length);
}
