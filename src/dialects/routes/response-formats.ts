/**
 * Converts a response of one dialect between its JSON and its stream form, for the response cache. Pure.
 *
 * A conversion that would lose something, or whose meaning is not certain, is not made: it returns null.
 */
import type { Dialect } from '../../core/call.ts';
import { createSseParser } from '../../core/sse.ts';
import { assembleChat } from '../chat/assemble.ts';
import { toChatChunks } from '../chat/to-chunks.ts';
import { UntranslatableError } from '../contract/untranslatable.ts';
import { parseLossless } from '../json/parse-lossless.ts';
import { assembleMessages } from '../messages/assemble.ts';
import { toMessagesEvents } from '../messages/to-events.ts';

/** The JSON response with the meaning of a complete stream. Null when it cannot be converted. */
export function streamToJson(dialect: Dialect, stream: Buffer): string | null {
  const parser = createSseParser();
  const events = [...parser.push(stream).events, ...parser.end().events];
  const payloads = events.flatMap(({ data }) => (data === '' || data === '[DONE]' ? [] : [parseLossless(data)]));
  const assemble = dialect === 'chat' ? assembleChat : assembleMessages;
  return nullIfUntranslatable(() => JSON.stringify(assemble(payloads)));
}

/** The events of a stream with the meaning of a JSON response, ready to send. Null when it cannot be converted. */
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
