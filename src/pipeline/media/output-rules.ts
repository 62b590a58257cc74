/** Applies the content rules for output to a media response that contains text. */
import { type GatewayError, VendorError } from '../../core/errors.ts';
import type { PlaceRules } from '../../guardrails/rules.ts';

type Chunks = AsyncGenerator<Buffer, void>;

export interface CheckedOutput {
  readonly chunks: Chunks;
  readonly error: GatewayError | null;
}

/** The maximum number of bytes that we hold back until they're checked. Plain responses have the same limit. */
const maxHeldBytes = 64 * 1024 * 1024;

/**
 * If any rule can block the response, we buffer it until its text has been checked. Otherwise, we pass it on and check
 * the text at the end. `check` is called once, and never throws if the rules only observe.
 */
export async function checkOutput(rules: PlaceRules, chunks: Chunks, check: () => Promise<GatewayError | null>): Promise<CheckedOutput> {
  if (!rules.blocks) return { chunks: tap(chunks, check), error: null };
  const held = await hold(chunks);
  return { chunks: held, error: await check() };
}

async function* tap(chunks: Chunks, check: () => Promise<unknown>): Chunks {
  try {
    yield* chunks;
  } finally {
    await chunks.return();
    await check();
  }
}

/** Buffers a whole response, including an error at its end, so that it can be replayed. */
async function hold(chunks: Chunks): Promise<Chunks> {
  const held: Buffer[] = [];
  let heldBytes = 0;
  let failure: unknown = null;
  try {
    for await (const chunk of chunks) {
      heldBytes += chunk.length;
      if (heldBytes > maxHeldBytes) throw new VendorError('broken', 'the response is too large to be checked against the content rules');
      held.push(chunk);
    }
  } catch (error) {
    failure = error;
  }
  return replay(held, failure);
}

async function* replay(held: readonly Buffer[], failure: unknown): Chunks {
  yield* held;
  if (failure !== null) throw failure;
}
