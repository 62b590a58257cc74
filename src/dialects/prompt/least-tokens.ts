/**
 * Computes a lower bound for the number of tokens in a prompt that holds for every tokenizer in use. We use it to skip
 * models whose context window is definitely too small.
 *
 * We only count the text of messages, and leave out images, files, audio, tools, thinking and all JSON syntax. Every
 * word takes at least one token, and a very long word takes more. A Chinese, Japanese or Korean character counts as
 * half a token, and a character of another script without spaces as a quarter. For the measured margin, see
 * docs/architecture/routing-and-failover.md#context-windows.
 */
import { characters } from '../../core/json/characters.ts';
import { kindAt, skipSpace, skipString } from '../../core/json/syntax.ts';
import { factsOf } from '../json/body-facts.ts';

const { backslash, colon } = characters;

/**
 * JSON keys whose values are part of the prompt. Since quotes inside a string are escaped, searching for a key with its
 * quotes never finds anything within a string.
 */
const textKeys = ['"text"', '"content"', '"arguments"', '"output"', '"system"', '"instructions"', '"input"'];

/** Fields that make OpenAI, Anthropic, OpenRouter or vLLM shorten a prompt that is too long. */
const shorteningKeys = ['"truncation"', '"context_management"', '"transforms"', '"truncate_prompt_tokens"'];

/**
 * `countLeastTokens` never counts more than one token for two bytes, because it only counts words, and a word takes up
 * at least one letter and a separator.
 */
export const leastBytesPerToken = 2;

/** Counting stops here. No context window holds this much text, and up to this point counting takes less than 0.1 s. */
const maxCountedBytes = 8 * 1024 * 1024;

/**
 * Returns a lower bound for the number of tokens in a body. Stops early once the count exceeds `limit`. Returns 0 if
 * the request allows the vendor to shorten the prompt, because then it always fits.
 */
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

/**
 * We count one token for each group of up to this many letters in a word. Real tokenizers split long words into more
 * tokens. Base64, for example, has a token for every two or three letters.
 */
const lettersPerToken = 16;

const letter = 1;
const escaped = 2;
const threeBytes = 3;
const fourBytes = 4;

/**
 * Maps each byte to the kind of character that it starts or continues. ASCII word characters and all two-byte
 * characters count as letters of scripts that put spaces between words.
 */
const classes = Uint8Array.from({ length: 256 }, (_, byte) => {
  if (byte === backslash) return escaped;
  if (byte < 0x80) return /[\w']/.test(String.fromCharCode(byte)) ? letter : 0;
  return byte < 0xe0 ? letter : byte < 0xf0 ? threeBytes : fourBytes;
});

/**
 * Counts the tokens between two offsets inside a JSON string. We use a single loop that doesn't allocate anything,
 * which processes 100 MB/s (measured).
 */
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

/**
 * The first code unit of scripts without spaces between words, the first one of Chinese, Japanese and Korean, and the
 * first surrogate.
 */
const firstUnspaced = 0x800;
const firstCjk = 0x2e80;
const firstSurrogate = 0xd800;
