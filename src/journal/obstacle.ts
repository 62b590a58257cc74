/** Why the journal cannot be written, for callers and operators. */
import { errorCode, errorSummary } from '../core/error-messages.ts';
import { type GatewayError, gatewayError } from '../core/errors.ts';

export interface JournalObstacle {
  /** For callers. */
  readonly summary: string;
  /** For operators: the last error, such as the bytes that are free and needed. */
  readonly detail: string;
}

/** True when freeing space may help. */
export function isDiskFull(error: unknown): boolean {
  return errorCode(error) === 'ENOSPC' || errorCode(error) === 'EDQUOT';
}

export function toObstacle(error: unknown): JournalObstacle {
  return { summary: isDiskFull(error) ? 'the disk is full' : 'the disk cannot be written', detail: errorSummary(error) };
}

/** The error of a call that cannot be recorded, and is therefore not sent. */
export function notRecorded({ summary }: JournalObstacle, cause?: unknown): GatewayError {
  return gatewayError('budget_unavailable', { message: `calls cannot be recorded at the moment: ${summary}`, cause });
}
