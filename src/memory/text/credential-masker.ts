/**
 * Replaces credentials in what is kept of a call (decisions 9). It happens before messages are hashed: an answer and its repetition in the
 * next request are masked alike, so they stay the same message, and no hash of a secret is stored either.
 *
 * Work grows with the length of the text (40 ms for a million characters). Clients repeat their history, system prompt and tool results with
 * each call: a long text that was found without credentials is known by its SHA-256 and not read again, so a call costs what is new in it.
 */
import { hash } from 'node:crypto';
import type { NormalMessage, PositionedExtra } from '../../dialects/prompt/prompt.ts';
import { maskCredentials } from '../../guardrails/credentials.ts';

export interface CredentialMasker {
  readonly maskMessage: (maskMessage: NormalMessage) => NormalMessage;
  readonly maskExtra: (maskExtra: PositionedExtra) => PositionedExtra;
}

/** Hashing a shorter text is no cheaper than reading it. */
const minHashedLength = 512;
/** Of texts without credentials; beyond that the oldest is forgotten. */
const maxCleanTexts = 20_000;

export function createCredentialMasker(mask: (text: string) => string = maskCredentials): CredentialMasker {
  const cleanTexts = new Set<string>();

  const maskText = (text: string): string => {
    if (text.length < minHashedLength) return mask(text);
    const name = hash('sha256', text, 'base64');
    if (cleanTexts.has(name)) return text;
    const masked = mask(text);
    if (masked === text) {
      const [oldest] = cleanTexts;
      if (cleanTexts.size >= maxCleanTexts && oldest !== undefined) cleanTexts.delete(oldest);
      cleanTexts.add(name);
    }
    return masked;
  };

  /**
   * Many clients parse arguments and write them anew, with other spaces and escapes: a credential counts wherever it shows in either form. A
   * placeholder may leave no JSON behind; then every writing must give the same text.
   */
  const maskArguments = (text: string): string => {
    const compact = compactJson(text);
    if (compact === null) return maskText(text);
    const masked = maskText(compact);
    if (masked !== compact) return masked;
    return text === compact ? text : maskText(text);
  };

  return {
    maskMessage: ({ role, text, toolCalls }) => ({
      role,
      text: maskText(text),
      toolCalls: toolCalls.map((call) => ({ name: maskText(call.name), arguments: maskArguments(call.arguments) })),
    }),
    maskExtra: (extra) => {
      const type = maskText(extra.type);
      if (extra.kind !== 'binary') return { ...extra, type, text: maskText(extra.text) };
      return { ...extra, type, media_type: extra.media_type === null ? null : maskText(extra.media_type) };
    },
  };
}

function compactJson(text: string): string | null {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    return null; // Models write broken JSON at times.
  }
}
