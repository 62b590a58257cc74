/**
 * Converts responses from JSON to a stream and back within the same dialect, for the response cache. Returns null if a
 * response contains something that we don't know or that would get lost.
 */
import type { Dialect } from '../../core/call.ts';
import { createSseParser } from '../../core/sse.ts';
import { assembleChat } from '../chat/assemble.ts';
import { toChatChunks } from '../chat/to-chunks.ts';
import { UntranslatableError } from '../contract/untranslatable.ts';
import { parseLossless } from '../json/parse-lossless.ts';
import { assembleMessages } from '../messages/assemble.ts';
import { toMessagesEvents } from '../messages/to-events.ts';

/** Turns a complete stream into the equivalent JSON response, or returns null if that isn't possible. */
export function streamToJson(dialect: Dialect, stream: Buffer): string | null {
  const parser = createSseParser();
  const events = [...parser.push(stream).events, ...parser.end().events];
  const payloads = events.flatMap(({ data }) => (data === '' || data === '[DONE]' ? [] : [parseLossless(data)]));
  const assemble = dialect === 'chat' ? assembleChat : assembleMessages;
  return nullIfUntranslatable(() => JSON.stringify(assemble(payloads)));
}

/**
 * Turns a JSON response into the events of an equivalent stream, ready to be sent. Returns null if that isn't possible.
 */
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
