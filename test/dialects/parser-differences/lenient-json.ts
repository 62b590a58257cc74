/**
 * A JSON parser that is as lenient as all real parsers together. In addition to RFC 8259, it accepts comments, trailing
 * commas, single quotes, unquoted keys, `NaN`, control characters and unknown escapes in strings, nonstandard numbers,
 * and text after the value.
 */
export interface LenientOptions {
  /** Decides which value wins if a key is repeated. */
  readonly duplicates: 'first' | 'last';
  /** Treats keys that only differ in case as equal, like Go does. */
  readonly ignoreCase: boolean;
}

/** Numbers stay text, so that they don't lose any digits. */
export type LenientValue = string | null | { readonly number: string } | readonly LenientValue[] | ReadonlyMap<string, LenientValue>;

/** Throws a `SyntaxError` if not even this parser can read the text. */
export function parseLenient(text: string, { duplicates, ignoreCase }: LenientOptions): LenientValue {
  let at = 0;

  const skip = (): void => {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: some parsers skip NUL.
    const space = /(?:[\s\u0000\ufeff]|\/\/[^\n]*|\/\*[\s\S]*?\*\/|#[^\n]*)*/y;
    space.lastIndex = at;
    space.test(text);
    at = space.lastIndex;
  };
  const take = (pattern: RegExp): string | null => {
    const sticky = new RegExp(pattern, 'y');
    sticky.lastIndex = at;
    const match = sticky.exec(text);
    if (match) at = sticky.lastIndex;
    return match?.[0] ?? null;
  };
  const readString = (quote: string): string => {
    at += 1;
    let read = '';
    for (; at < text.length && text[at] !== quote; at += 1) {
      if (text[at] !== '\\') {
        read += text[at];
        continue;
      }
      at += 1;
      const hex = /^(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))/.exec(text.slice(at, at + 5));
      if (hex) {
        read += String.fromCharCode(Number.parseInt(hex[1] ?? hex[2] ?? '', 16));
        at += hex[0].length - 1;
      } else read += { n: '\n', t: '\t', r: '\r', b: '\b', f: '\f' }[text[at] ?? ''] ?? text[at] ?? '';
    }
    if (at >= text.length) throw new SyntaxError('unfinished string');
    at += 1;
    return read;
  };
  const readObject = (): LenientValue => {
    const members = new Map<string, LenientValue>();
    at += 1;
    for (skip(); text[at] !== '}'; skip()) {
      if (at >= text.length) throw new SyntaxError('unfinished object');
      const key = text[at] === '"' || text[at] === "'" ? readString(text[at] ?? '') : take(/[\w$.-]+/);
      if (key === null) throw new SyntaxError('no key');
      skip();
      if (take(/[:=]/) === null) throw new SyntaxError('no colon');
      const value = readValue();
      const known = ignoreCase ? ([...members.keys()].find((other) => other.toLowerCase() === key.toLowerCase()) ?? key) : key;
      if (duplicates === 'last' || !members.has(known)) members.set(known, value);
      skip();
      take(/,+/);
    }
    at += 1;
    return members;
  };
  const readList = (): LenientValue => {
    const items: LenientValue[] = [];
    at += 1;
    for (skip(); text[at] !== ']'; skip()) {
      if (at >= text.length) throw new SyntaxError('unfinished list');
      items.push(readValue());
      skip();
      take(/,+/);
    }
    at += 1;
    return items;
  };
  const readValue = (): LenientValue => {
    skip();
    if (text[at] === '{') return readObject();
    if (text[at] === '[') return readList();
    if (text[at] === '"' || text[at] === "'") return readString(text[at] ?? '');
    const word = take(/[\w.+-]+/);
    if (word === null) throw new SyntaxError('no value');
    return /\d/.test(word) ? { number: word } : null;
  };
  return readValue();
}

/** Returns all strings and numbers in a value, including keys. */
export function textsOf(value: LenientValue): string[] {
  if (value === null) return [];
  if (typeof value === 'string') return [value];
  if (value instanceof Map) return [...value].flatMap(([key, member]) => [key, ...textsOf(member)]);
  if (Array.isArray(value)) return value.flatMap(textsOf);
  return 'number' in value ? [String(value.number)] : [];
}
