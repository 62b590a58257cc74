/**
 * Model names of the demo vendor that do something other than echo, to try out failover and memory: `fail-<status>`,
 * `rate-limited-<seconds>`, `break-after-<n>` (a stream that breaks off after n deltas) and `echo-body` (responds with the request body).
 */
import { errorResponse, type Family, rateLimitResponse } from './errors.ts';
import type { DemoRequest, DemoResponse } from './response.ts';

/** Returns the error that the model's name asks for; null for any other name. */
export function failureOf({ model }: DemoRequest, family: Family): DemoResponse | null {
  const [, status, seconds] = /^(?:fail-([45]\d\d)|rate-limited-(\d+))$/.exec(model) ?? [];
  if (status !== undefined) return errorResponse(family, { status: Number(status), message: failureMessage(status, model) });
  return seconds === undefined ? null : rateLimitResponse(family, model, { headers: { 'retry-after': seconds } });
}

/** Returns after how many deltas the stream breaks off. */
export function breakAfter({ model }: DemoRequest): number {
  return Number(/^break-after-(\d+)$/.exec(model)?.[1] ?? Infinity);
}

export function repeatsBody({ model }: DemoRequest): boolean {
  return model === 'echo-body';
}

function failureMessage(status: string, model: string): string {
  return `The demo vendor was asked to fail with ${status} by the model name '${model}'.`;
}
