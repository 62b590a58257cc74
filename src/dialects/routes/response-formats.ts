/**
 * The two forms of an answer, plain and streamed, told in each other within one dialect: for answers that are kept and given again. Pure.
 *
 * Nothing is told in the other form that would lose something there, or that is not known to mean the same: then there is no other form.
 */
import type { Dialect } from '../../core/call.ts';
import { createSseParser } from '../../core/sse.ts';
import { assembleChat } from '../chat/assemble.ts';
import { replayChat } from '../chat/to-chunks.ts';
import { Untranslatable } from '../contract/untranslatable.ts';
import { parseLossless } from '../json/parse-lossless.ts';
import { assembleMessages } from '../messages/assemble.ts';
import { replayMessages } from '../messages/to-events.ts';

/** The plain answer that a whole stream tells, as JSON text; null when it cannot be told. */
export function plainOf(dialect: Dialect, stream: Buffer): string | null {
  const parser = createSseParser();
  const events = [...parser.push(stream).events, ...parser.end().events];
  const datas = events.flatMap(({ data }) => (data === '' || data === '[DONE]' ? [] : [parseLossless(data)]));
  const assemble = dialect === 'chat' ? assembleChat : assembleMessages;
  return orNull(() => JSON.stringify(assemble(datas)));
}

/** The events of a stream that tells the plain answer, as text that is ready to send; null when it cannot be told. */
export function streamOf(dialect: Dialect, plain: Buffer): string | null {
  const answer = parseLossless(plain.toString('utf8'));
  const replay = dialect === 'chat' ? replayChat : replayMessages;
  return orNull(() => replay(answer).join(''));
}

function orNull<Result>(tell: () => Result): Result | null {
  try {
    return tell();
  } catch (error) {
    if (error instanceof Untranslatable) return null;
    throw error;
  }
}
