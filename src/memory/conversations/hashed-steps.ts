/**
 * Represents the steps of a prompt by their hashes. If we've read a text before, we only read it again when it's
 * needed.
 */
import { normalizeMessage, type Step } from '../../dialects/prompt/prompt.ts';
import type { CredentialMasker } from '../text/credential-masker.ts';
import { type ChainPart, type ExtraPart, type HashedExtra, type HashedMessage, toHashedExtra, toHashedMessage } from './chain.ts';

export type HashedStep =
  | { readonly kind: 'message'; readonly message: HashedMessage }
  | { readonly kind: 'extra'; readonly extra: HashedExtra }
  | { readonly kind: 'pause' };

/** Types and media types come from the caller, so we don't cache longer ones. */
const maxTypeLength = 200;

/** Thrown if we have to read the prompt as a whole, because we don't store or can't cache all of it. */
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

const emptyMessage = { role: 'user', text: '', toolCalls: [] } as const;

export function withoutText(step: HashedStep): HashedStep {
  if (step.kind === 'message') return { kind: 'message', message: { ...step.message, message: emptyMessage } };
  return step.kind === 'extra' ? { kind: 'extra', extra: { ...step.extra, text: '' } } : step;
}

export function withText(step: HashedStep, read: () => HashedStep | undefined): HashedStep {
  const same = (): HashedStep => read() ?? { kind: 'pause' };
  if (step.kind === 'message') {
    const readMessage = () => {
      const found = same();
      return found.kind === 'message' ? found.message : undefined;
    };
    return { kind: 'message', message: withMessage(step.message, readMessage) };
  }
  if (step.kind === 'pause') return step;
  const readExtra = () => {
    const found = same();
    return found.kind === 'extra' ? found.extra : undefined;
  };
  return { kind: 'extra', extra: withExtra(step.extra, readExtra) };
}

/** Returns a message that only reads its text from the prompt when it's needed. */
function withMessage(hashed: HashedMessage, read: () => HashedMessage | undefined): HashedMessage {
  return {
    ...hashed,
    get message() {
      return read()?.message ?? emptyMessage;
    },
  };
}

export function withExtra(hashed: HashedExtra, read: () => HashedExtra | undefined): HashedExtra {
  return {
    ...hashed,
    get text() {
      return read()?.text ?? '';
    },
  };
}

/**
 * A message of a known history that only reads its text from the prompt when it's needed. This is a class because a
 * long history has hundreds of them.
 */
export class KnownPart implements ChainPart {
  readonly role;
  readonly messageHash;
  readonly length;
  readonly hash;
  readonly parentHash;
  readonly #read: () => HashedMessage | undefined;

  constructor({ role, messageHash, length, hash, parentHash }: ChainPart, read: () => HashedMessage | undefined) {
    this.role = role;
    this.messageHash = messageHash;
    this.length = length;
    this.hash = hash;
    this.parentHash = parentHash;
    this.#read = read;
  }

  get message() {
    return this.#read()?.message ?? emptyMessage;
  }
}

/** Like `KnownPart`, for extras. */
export class KnownExtra implements ExtraPart {
  readonly role;
  readonly details;
  readonly textHash;
  readonly hash;
  readonly parentHash;
  readonly position;
  readonly #read: () => HashedExtra | undefined;

  constructor({ role, details, textHash, hash, parentHash, position }: ExtraPart, read: () => HashedExtra | undefined) {
    this.role = role;
    this.details = details;
    this.textHash = textHash;
    this.hash = hash;
    this.parentHash = parentHash;
    this.position = position;
    this.#read = read;
  }

  get text() {
    return this.#read()?.text ?? '';
  }
}

/** Lists the properties by name, because spreading the part would call the getter and read the text. */
export function forgetMessage({ role, messageHash, length, hash, parentHash }: ChainPart): ChainPart {
  return { role, messageHash, length, hash, parentHash, message: emptyMessage };
}

export function forgetExtra({ role, details, textHash, hash, parentHash, position }: ExtraPart): ExtraPart {
  return { role, details, textHash, hash, parentHash, position, text: '' };
}
