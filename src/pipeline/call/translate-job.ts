/** The job of `translate-in-thread.ts`. */
import type { ErrorDetails } from '../../core/errors.ts';
import { toBuffer } from '../../core/low-priority-thread.ts';
import { UntranslatableError } from '../../dialects/contract/untranslatable.ts';
import { type TranslatedRequest, type TranslationTarget, translateRequest } from './translate-request.ts';

/** What we need to create the UntranslatableError again, because it doesn't survive the transfer between threads. */
export interface Untranslatable {
  readonly untranslatable: { readonly message: string; readonly param?: string; readonly details?: ErrorDetails | undefined };
}

export function translateJob({
  bytes,
  target,
}: {
  readonly bytes: Uint8Array;
  readonly target: TranslationTarget;
}): TranslatedRequest | Untranslatable {
  try {
    return translateRequest(toBuffer(bytes), target);
  } catch (error) {
    if (!(error instanceof UntranslatableError)) throw error;
    const { message, param, details } = error;
    return { untranslatable: { message, ...(param !== null && { param }), details } };
  }
}
