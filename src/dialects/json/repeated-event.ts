/**
 * Reads the text of stream events without parsing every event. Most events differ from the previous one in a single
 * string, so we parse one of them as an example and compare the others with it.
 *
 * Before we use an event as an example, we parse it again with a different string in that place. If only the text
 * changes, we know that all events with the same characters around the string mean the same and only differ in their
 * text.
 */
import { asString, parseJson } from '../../core/json/narrow.ts';

export interface RepeatedEvent {
  /** Returns the text of an event that differs from the example only in its text. Returns null for any other event. */
  read(data: string): string | null;
  /** Makes this event the example that later events are compared with. `text` is the text in the event. */
  learn(data: string, text: string): void;
}

export interface RepeatedEventOptions {
  /** The name of the JSON field that contains the text. */
  readonly member: string;
  /** Parses the data of an event and returns its text, or null if the event means something else. */
  readonly readText: (data: string) => string | null;
}

/** Matches the inside of a JSON string that has only one encoding, i.e. without escapes. */
const isPlain = /^[ !#-[\]-\uffff]*$/;

/**
 * The maximum number of examples per stream. Some vendors send events that differ in more than the text. Learning more
 * examples for these would cost more than it saves.
 */
const maxExamples = 8;
/**
 * The maximum length of an example, in characters. Proving that an example of 16 MB is safe takes half a second, which
 * is longer than it saves.
 */
const maxExampleLength = 65_536;

export function createRepeatedEvent({ member, readText }: RepeatedEventOptions): RepeatedEvent {
  const key = `${JSON.stringify(member)}:`;
  let examples = 0;
  let before = '';
  /** The rest of the example after its text, starting with the closing quote. */
  let after = '';

  return {
    read(data) {
      const end = data.length - after.length;
      // Slicing and comparing takes a third less time than `startsWith` (measured).
      if (before === '' || end < before.length || data.slice(0, before.length) !== before || data.slice(end) !== after) return null;
      const literal = data.slice(before.length, end);
      return isPlain.test(literal) ? literal : asString(parseJson(`"${literal}"`));
    },
    learn(data, text) {
      if (examples === maxExamples || data.length > maxExampleLength) return;
      examples += 1;
      const start = data.indexOf(`${key}${JSON.stringify(text)}`) + key.length;
      if (start < key.length) return;
      const head = data.slice(0, start);
      const tail = data.slice(start + JSON.stringify(text).length);
      const probe = `${text}?`;
      if (readText(head + JSON.stringify(probe) + tail) !== probe) return;
      before = `${head}"`;
      after = `"${tail}`;
    },
  };
}
