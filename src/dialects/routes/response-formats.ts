/**
 * The two forms of an answer, plain and streamed, told in each other within one dialect: for answers that are kept and given again. Pure.
 *
 * Nothing is told in the other form that would lose something there, or that is not known to mean the same: then there is no other form.
 */
import type { Dialect } from '../../core/call.ts';
import { createSseParser } from '../../core/sse.ts';
import { assembleChat } from '../chat/assemble.ts';
import { toChatChunks } from '../chat/to-chunks.ts';
import { UntranslatableError } from '../contract/untranslatable.ts';
import { parseLossless } from '../json/parse-lossless.ts';
import { assembleMessages } from '../messages/assemble.ts';
import { toMessagesEvents } from '../messages/to-events.ts';

/** The plain answer that a whole stream tells, as JSON text; null when it cannot be told. */
export function streamToJson(dialect: Dialect, stream: Buffer): string | null {
  const parser = createSseParser();
  const events = [...parser.push(stream).events, ...parser.end().events];
  const payloads = events.flatMap(({ data }) => (data === '' || data === '[DONE]' ? [] : [parseLossless(data)]));
  const assemble = dialect === 'chat' ? assembleChat : assembleMessages;
  return nullIfUntranslatable(() => JSON.stringify(assemble(payloads)));
}

/** The events of a stream that tells the plain answer, as text that is ready to send; null when it cannot be told. */
export function jsonToStream(dialect: Dialect, plain: Buffer): string | null {
  const answer = parseLossless(plain.toString('utf8'));
  const replay = dialect === 'chat' ? toChatChunks : toMessagesEvents;
  return nullIfUntranslatable(() => replay(answer).join(''));
}

function nullIfUntranslatable<Result>(convert: () => Result): Result | null {
  try {
    return convert();
  } catch (error) {
    if (error instanceof UntranslatableError) return null;
    throw error;
  }
}
