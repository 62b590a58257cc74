/**
 * Translates requests with many values in the low-priority thread. It takes about 7 µs per value, so a request of 1 MiB
 * can take 700 ms if it consists of short fields, but only a few milliseconds if it's mostly text.
 */
import { defineJob, toBuffer } from '../../core/low-priority-thread.ts';
import { joinInTurns } from '../../core/turns.ts';
import { UntranslatableError } from '../../dialects/contract/untranslatable.ts';
import type { translateJob } from './translate-job.ts';
import type { TranslatedRequest, TranslationTarget } from './translate-request.ts';

const runInThread = defineJob<typeof translateJob>(new URL('./translate-job.ts', import.meta.url).href, 'translateJob');

/** Resolves with the error if the vendor's dialect can't express the request. */
export async function translateInThread(
  owner: string,
  body: Buffer,
  target: TranslationTarget,
): Promise<TranslatedRequest | UntranslatableError> {
  // Send a copy to the thread, because the call still needs the original.
  const translated = await runInThread(owner, { bytes: await joinInTurns([body], body.length), target });
  if ('untranslatable' in translated) {
    const { message, ...options } = translated.untranslatable;
    return new UntranslatableError(message, options);
  }
  return { ...translated, body: toBuffer(translated.body) };
}
