import { endOfString, readJson } from './reader.ts';

/**
 * Like `JSON.parse`, but without a bug of V8 that mixes up escaped keys (https://github.com/nodejs/node/issues/63785).
 * For example, once V8 has parsed `{"q":1,"a\\":2}`, it reads `{"q":1,"a\u0062":2}` as if the second key were `a\`
 * instead of `ab`. So one project's request could change another one's keys, or hide a key from content rules. Use this
 * for all JSON whose keys we didn't choose. Throws a SyntaxError.
 */
export function parseJsonOrThrow(text: string): unknown {
  return hasEscapedKey(text) ? readJson(text, { toNumber: Number }) : JSON.parse(text);
}

/** Like `parseJsonOrThrow`, but returns undefined if the text isn't valid JSON. */
export function parseJson(text: string): unknown {
  try {
    return parseJsonOrThrow(text);
  } catch {
    return undefined;
  }
}

const colonFollows = /[ \n\r\t]*:/y;

/**
 * Only looks at strings with a backslash, so if a text contains no backslash, a single search is enough. May return
 * true for invalid JSON.
 */
function hasEscapedKey(text: string): boolean {
  for (let at = text.indexOf('\\'); at >= 0; at = text.indexOf('\\', at)) {
    at = endOfString(text, at);
    if (at === 0) return false;
    colonFollows.lastIndex = at;
    if (colonFollows.test(text)) return true;
  }
  return false;
}
