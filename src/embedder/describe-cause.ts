/**
 * Describes why a request has failed, for the log. Error messages can quote the text that we were working on, so we
 * leave them out.
 */
import type { FailureCause } from './messages.ts';
import { RuntimeError } from './runtime-error.ts';

export function describeCause(error: unknown): FailureCause {
  if (!(error instanceof Error)) return { name: typeof error, stack: '' };
  const { name, message, stack = '' } = error;
  // The message can consist of several lines that look like stack frames, so skip it before looking for frames.
  const at = stack.indexOf(message);
  const frames =
    at === -1
      ? []
      : stack
          .slice(at + message.length)
          .split('\n')
          .filter((line) => line.startsWith('    at '));
  return { name, stack: [error instanceof RuntimeError ? `${name}: ${message}` : name, ...frames].join('\n') };
}
