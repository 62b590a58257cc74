/** What we tell callers and operators if the journal can't be written. */
import { errorCode, errorSummary } from '../core/error-messages.ts';
import { type GatewayError, gatewayError } from '../core/errors.ts';

export interface JournalObstacle {
  /** A short explanation for callers. */
  readonly summary: string;
  /**
   * A full explanation for operators. It contains the last error and, for example, how much disk space is free and how
   * much we need.
   */
  readonly detail: string;
}

export function isDiskFull(error: unknown): boolean {
  return errorCode(error) === 'ENOSPC' || errorCode(error) === 'EDQUOT';
}

export function toObstacle(error: unknown): JournalObstacle {
  return { summary: isDiskFull(error) ? 'the disk is full' : 'the disk is not writable', detail: errorSummary(error) };
}

/** Creates the error for a call that we refuse to send because we can't record it. */
export function notRecorded({ summary }: JournalObstacle, cause?: unknown): GatewayError {
  return gatewayError('budget_unavailable', { message: `calls cannot be recorded at the moment: ${summary}`, cause });
}
