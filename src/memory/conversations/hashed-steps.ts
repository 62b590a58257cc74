/** Steps of a prompt as hashes. A text that was read before is read again only when it is needed. */
import { normalizeMessage, type Step } from '../../dialects/prompt/prompt.ts';
import type { CredentialMasker } from '../text/credential-masker.ts';
import { type ChainPart, type ExtraPart, type HashedExtra, type HashedMessage, toHashedExtra, toHashedMessage } from './chain.ts';

export type HashedStep =
  | { readonly kind: 'message'; readonly message: HashedMessage }
  | { readonly kind: 'extra'; readonly extra: HashedExtra }
  | { readonly kind: 'pause' };

/** Types and media types are the caller's text. Longer ones are not remembered. */
const maxTypeLength = 200;

/** The prompt is read as a whole, because not all of it is stored, or not all of it can be remembered. */
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

/** The message whose text is taken from what `read` returns. */
export function withMessage<Message extends HashedMessage>(hashed: Message, read: () => HashedMessage | undefined): Message {
  return {
    ...hashed,
    get message() {
      return read()?.message ?? emptyMessage;
    },
  };
}

export function withExtra<Extra extends HashedExtra>(hashed: Extra, read: () => HashedExtra | undefined): Extra {
  return {
    ...hashed,
    get text() {
      return read()?.text ?? '';
    },
  };
}

/** By name: to copy all members would read the text. */
export function forgetMessage({ role, messageHash, length, hash, parentHash }: ChainPart): ChainPart {
  return { role, messageHash, length, hash, parentHash, message: emptyMessage };
}

export function forgetExtra({ role, details, textHash, hash, parentHash, position }: ExtraPart): ExtraPart {
  return { role, details, textHash, hash, parentHash, position, text: '' };
}
