/** Explains to callers and operators why the journal can't be written. */
import { errorCode, errorSummary } from '../core/error-messages.ts';
import { type GatewayError, gatewayError } from '../core/errors.ts';

export interface JournalObstacle {
  /** Shown to callers. */
  readonly summary: string;
  /** Shown to operators. Contains the last error, including e.g. how many bytes are free and how many are needed. */
  readonly detail: string;
}

/** Reports whether it may help to free disk space. */
export function isDiskFull(error: unknown): boolean {
  return errorCode(error) === 'ENOSPC' || errorCode(error) === 'EDQUOT';
}

export function toObstacle(error: unknown): JournalObstacle {
  return { summary: isDiskFull(error) ? 'the disk is full' : 'the disk is not writable', detail: errorSummary(error) };
}

/** Creates the error for a call that we don't send because we can't record it. */
export function notRecorded({ summary }: JournalObstacle, cause?: unknown): GatewayError {
  return gatewayError('budget_unavailable', { message: `calls cannot be recorded at the moment: ${summary}`, cause });
}
