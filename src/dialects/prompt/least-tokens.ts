/**
 * A lower bound of the tokens of a prompt, whatever the model's tokenizer: for skipping models that certainly cannot take it. Pure.
 *
 * Only texts of messages count, not images, files, audio, tools, thinking and the JSON around them. A word is at least one token in every
 * tokenizer in use, and a very long one more; Chinese, Japanese and Korean characters count half a token each, those of other scripts without
 * spaces a quarter. The page docs/architecture/routing-and-failover.md#context-windows has the measured margin.
 */
import { characters } from '../../core/json/characters.ts';
import { kindAt, skipSpace, skipString } from '../../core/json/syntax.ts';
import { factsOf } from '../json/body-facts.ts';

const { backslash, colon } = characters;

/** Members whose strings are prompt text. Quotes inside JSON strings are escaped, so a quoted key with bare quotes is never part of a text. */
const textKeys = ['"text"', '"content"', '"arguments"', '"output"', '"system"', '"instructions"', '"input"'];

/** Members by which the vendor shortens a prompt that is too long: OpenAI, Anthropic, OpenRouter, vLLM. */
const shorteningKeys = ['"truncation"', '"context_management"', '"transforms"', '"truncate_prompt_tokens"'];

/** No body has more tokens by this count than its bytes divided by this number: a word has a letter and a separator. */
export const leastBytesPerToken = 2;

/** Text that is counted: more than the largest windows hold, in less than 0.1 s. */
const maxCountedBytes = 8 * 1024 * 1024;

/** Counting stops when the bound is above `limit`. Zero when the vendor may shorten the prompt. */
export function countLeastTokens(body: Buffer, limit: number): number {
  const known = factsOf(body)?.leastTokens;
  if (known !== undefined) return known;
  if (shorteningKeys.some((key) => body.includes(key))) return 0;
  let tokens = 0;
  let bytesLeft = maxCountedBytes;
  for (const key of textKeys) {
    for (let at = body.indexOf(key); at >= 0 && tokens <= limit && bytesLeft > 0; at = body.indexOf(key, at + key.length)) {
      const separator = skipSpace(body, at + key.length);
      if (body[separator] !== colon) continue;
      const value = skipSpace(body, separator + 1);
      if (kindAt(body, value) !== 'string') continue;
      const end = Math.min(skipString(body, value) - 1, value + 1 + bytesLeft);
      tokens += countText(body, value + 1, end);
      bytesLeft -= end - value;
    }
  }
  return Math.floor(tokens);
}

/** Letters of a word that are certainly more than one token: a blob of base64 has a token for two or three. */
const lettersPerToken = 16;

const letter = 1;
const escaped = 2;
const threeBytes = 3;
const fourBytes = 4;

/** What a byte begins or continues. Letters are those of alphabets with spaces between terms: all of ASCII, and characters of two bytes. */
const classes = Uint8Array.from({ length: 256 }, (_, byte) => {
  if (byte === backslash) return escaped;
  if (byte < 0x80) return /[\w']/.test(String.fromCharCode(byte)) ? letter : 0;
  return byte < 0xe0 ? letter : byte < 0xf0 ? threeBytes : fourBytes;
});

/** Counts the text between two offsets, which is the inside of a JSON string. One loop without allocations: 100 MB/s (measured). */
function countText(bytes: Buffer, start: number, end: number): number {
  let quarters = 0;
  let letters = 0;
  let at = start;
  while (at < end) {
    const kind = classes[bytes[at] ?? 0];
    if (kind === letter) {
      letters += 1;
      at += 1;
      continue;
    }
    let unit = 0;
    if (kind === 0) at += 1;
    else if (kind === threeBytes) {
      unit = (((bytes[at] ?? 0) & 0x0f) << 12) | (((bytes[at + 1] ?? 0) & 0x3f) << 6);
      at += 3;
    } else if (kind === fourBytes) {
      unit = firstCjk;
      at += 4;
    } else if (bytes[at + 1] === 0x75) {
      unit = Number.parseInt(bytes.toString('latin1', at + 2, at + 6), 16);
      at += 6;
      if (unit < firstUnspaced) {
        letters += 1;
        continue;
      }
    } else at += 2;
    if (letters > 0) {
      quarters += letters <= lettersPerToken ? 4 : 4 * Math.ceil(letters / lettersPerToken);
      letters = 0;
    }
    if (unit >= firstUnspaced) quarters += unit >= firstCjk && unit < firstSurrogate ? 2 : 1;
  }
  return (quarters + 4 * Math.ceil(letters / lettersPerToken)) / 4;
}

/** Code units: scripts without spaces between terms, Chinese, Japanese and Korean, and halves of a pair. */
const firstUnspaced = 0x800;
const firstCjk = 0x2e80;
const firstSurrogate = 0xd800;
