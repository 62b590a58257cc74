/**
 * Parses the JSON bodies of the media, video and memory routes. We parse a small body right away, and leave a larger
 * one to the low-priority thread, because some bodies take more than a second per megabyte to parse. Both run the same
 * function, so the size of a body never changes the response.
 */
import { defineJob, withOwnMemory } from '../core/low-priority-thread.ts';
import type { parseInThread } from './body-parser-job.ts';
import { PlainTextError } from './plain-text-error.ts';

/**
 * We leave bodies of at least this size to the thread. The slowest body of this size would block the event loop for
 * about 20 ms. Few real bodies on these routes are as large, except for images.
 */
export const threadBytes = 64 * 1_024;

/**
 * Returns a function that parses bodies of the project `owner` with `parse`. It has to be an exported function of
 * `module`, so that the thread can import it. `options` and the result are copied between threads. A large body is
 * transferred to the thread, so don't use it afterwards.
 */
export function createBodyParser<Options extends object, Result extends object>(
  module: string,
  parse: (body: Buffer, options: Options) => Result,
): (owner: string, body: Buffer, options: Options) => Result | Promise<Result> {
  const runInThread = defineJob<typeof parseInThread<Options, Result>>(job, 'parseInThread');
  const parseLarge = async (owner: string, body: Buffer, options: Options): Promise<Result> => {
    const parsed = await runInThread(owner, { module, name: parse.name, bytes: await withOwnMemory(body), options });
    if ('refused' in parsed) throw new PlainTextError(parsed.refused.status, parsed.refused.message);
    return parsed;
  };
  return (owner, body, options) => (body.length < threadBytes ? parse(body, options) : parseLarge(owner, body, options));
}

const job = new URL('./body-parser-job.ts', import.meta.url).href;
