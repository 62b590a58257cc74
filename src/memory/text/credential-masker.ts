/**
 * Replaces credentials in the text of calls before it's stored.
 *
 * We mask messages before we hash them, for two reasons: a response still has the same hash when the next request
 * repeats it, and no hash is computed from a secret. Searching a text takes about 10 ms per million characters. To
 * avoid doing that again for a repeated history, we cache the SHA-256 of long texts without credentials.
 */
import { hash } from 'node:crypto';
import { parseJsonOrThrow } from '../../core/json/parse.ts';
import { createLruCache } from '../../core/lru-cache.ts';
import type { NormalMessage, PromptExtra } from '../../dialects/prompt/prompt.ts';
import { maskCredentials } from '../../guardrails/credentials.ts';

export type CredentialMasker = ReturnType<typeof createCredentialMasker>;

/** Don't cache shorter texts, because searching them for credentials is faster than hashing them. */
const minHashedLength = 4_096;
const maxCleanTexts = 20_000;

export function createCredentialMasker(mask: (text: string) => string = maskCredentials) {
  const cleanTexts = createLruCache<true>(maxCleanTexts);

  const maskText = (text: string): string => {
    if (text.length < minHashedLength) return mask(text);
    const digest = hash('sha256', text, 'base64');
    if (cleanTexts.has(digest)) return text;
    const masked = mask(text);
    if (masked === text) cleanTexts.set(digest, true);
    return masked;
  };

  /**
   * Masks the arguments of a tool call. Clients may send these back with different white space and escapes, so we scan
   * them in compact form as well as in their original form. Both have to result in the same text, even if masking
   * breaks the JSON.
   */
  const maskArguments = (text: string): string => {
    const compact = compactJson(text);
    if (compact === null) return maskText(text);
    const masked = maskText(compact);
    if (masked !== compact) return masked;
    return text === compact ? text : maskText(text);
  };

  return {
    maskMessage(message: NormalMessage): NormalMessage {
      const text = maskText(message.text);
      if (message.toolCalls.length === 0 && text === message.text) return message;
      const toolCalls = message.toolCalls.map((call) => ({ name: maskText(call.name), arguments: maskArguments(call.arguments) }));
      return { role: message.role, text, toolCalls };
    },
    maskExtra: (extra: PromptExtra): PromptExtra => {
      const type = maskText(extra.type);
      if (extra.kind !== 'binary') return { ...extra, type, text: maskText(extra.text) };
      return { ...extra, type, media_type: extra.media_type === null ? null : maskText(extra.media_type) };
    },
  };
}

function compactJson(text: string): string | null {
  try {
    return JSON.stringify(parseJsonOrThrow(text));
  } catch {
    return null; // models sometimes write invalid JSON
  }
}
