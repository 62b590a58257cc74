/**
 * Hashes the messages and extras of a prompt. The text of a message or extra that occurred in an earlier prompt isn't
 * parsed until somebody needs it.
 */
import { normalizeMessage, type Step } from '../../dialects/prompt/prompt.ts';
import type { CredentialMasker } from '../text/credential-masker.ts';
import {
  type ChainPart,
  type ExtraPart,
  emptyMessage,
  type HashedExtra,
  type HashedMessage,
  toHashedExtra,
  toHashedMessage,
} from './chain.ts';

export type HashedStep =
  | { readonly kind: 'message'; readonly message: HashedMessage }
  | { readonly kind: 'extra'; readonly extra: HashedExtra }
  | { readonly kind: 'pause' };

/**
 * The maximum length of the types and media types that we cache. They come from the caller, so they could have any
 * length.
 */
const maxTypeLength = 200;

/**
 * Thrown if we can't read a prompt piece by piece, because the prompt, or the name of a type in it, is too long to
 * cache. The caller then reads the prompt as a whole.
 */
export class UnusualPromptError extends Error {}

export function isHashed(step: HashedStep | Step): step is HashedStep {
  return step.kind === 'pause' || 'message' in step || 'extra' in step;
}

export function hashSteps(steps: readonly Step[], masker: CredentialMasker): readonly HashedStep[] {
  return steps.flatMap((step): readonly HashedStep[] => {
    if (step.kind === 'pause') return [step];
    if (step.kind === 'extra') {
      return step.read().map((extra) => {
        if (extra.type.length > maxTypeLength || (extra.kind === 'binary' && (extra.media_type?.length ?? 0) > maxTypeLength)) {
          throw new UnusualPromptError();
        }
        return { kind: 'extra', extra: toHashedExtra(masker.maskExtra(extra)) };
      });
    }
    const message = normalizeMessage(step.role, step);
    return message ? [{ kind: 'message', message: toHashedMessage(masker.maskMessage(message)) }] : [];
  });
}

export function withoutText(step: HashedStep): HashedStep {
  if (step.kind === 'message') return { kind: 'message', message: { ...step.message, message: emptyMessage } };
  return step.kind === 'extra' ? { kind: 'extra', extra: { ...step.extra, text: '' } } : step;
}

export function withText(step: HashedStep, read: () => HashedStep | undefined): HashedStep {
  if (step.kind === 'pause') return step;
  if (step.kind === 'extra') {
    const readExtra = () => {
      const found = read();
      return found?.kind === 'extra' ? found.extra : undefined;
    };
    return { kind: 'extra', extra: withExtra(step.extra, readExtra) };
  }
  const message: HashedMessage = {
    ...step.message,
    get message() {
      const found = read();
      return found?.kind === 'message' ? found.message.message : emptyMessage;
    },
  };
  return { kind: 'message', message };
}

export function withExtra(hashed: HashedExtra, read: () => HashedExtra | undefined): HashedExtra {
  return {
    ...hashed,
    get text() {
      return read()?.text ?? '';
    },
  };
}

/** List the properties one by one. A spread would call the `message` getter and thus parse the text. */
export function forgetMessage({ role, messageHash, length, hash, parentHash }: ChainPart): ChainPart {
  return { role, messageHash, length, hash, parentHash, message: emptyMessage };
}

export function forgetExtra({ role, details, textHash, hash, parentHash, position }: ExtraPart): ExtraPart {
  return { role, details, textHash, hash, parentHash, position, text: '' };
}
