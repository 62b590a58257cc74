/**
 * Reads the text of stream events without parsing each of them: most events of a stream differ from the one before in one string only.
 *
 * An event is taken as an example only if it is proven by parsing that this string, and nothing else, is the text. Another event with the
 * same bytes before and after a string therefore has the same meaning with another text.
 */

import { asString, parseJson } from '../../core/json/narrow.ts';

export interface RepeatedEvent {
  /** Returns the text of an event that differs from the example only in its text; null for any other event, and before an example is known. */
  match(data: string): string | null;
  /** Takes an event with `text` as the example. */
  learn(data: string, text: string): void;
}

/** A JSON string without escapes, whose value is its characters. */
const isPlain = /^"[^"\\\p{Cc}]*"$/u;

/** Vendors whose events differ in more than the text: further examples would cost more than they save. */
const maxExamples = 8;

/** `member` is the name of the text's member; `readText` parses an event and returns its text, null when the event has another meaning. */
export function createRepeatedEvent(member: string, readText: (data: string) => string | null): RepeatedEvent {
  const key = `${JSON.stringify(member)}:`;
  let examples = 0;
  let before = '';
  let after = '';

  return {
    match(data) {
      if (before === '' || !data.startsWith(before) || !data.endsWith(after)) return null;
      const literal = data.slice(before.length, -after.length);
      return isPlain.test(literal) ? literal.slice(1, -1) : asString(parseJson(literal));
    },
    learn(data, text) {
      if (examples === maxExamples) return;
      examples += 1;
      const start = data.indexOf(`${key}${JSON.stringify(text)}`) + key.length;
      if (start < key.length) return;
      const head = data.slice(0, start);
      const tail = data.slice(start + JSON.stringify(text).length);
      const probe = `${text}?`;
      if (readText(head + JSON.stringify(probe) + tail) !== probe) return;
      before = head;
      after = tail;
    },
  };
}
