/**
 * With certain model names, the demo vendor does something other than echo, so that you can try out failover and
 * memory. These are `fail-<status>`, `rate-limited-<seconds>`, `break-after-<n>` (breaks off the stream after n deltas)
 * and `echo-body` (responds with the body of the request).
 */
import { errorResponse, type Family, rateLimitResponse } from './errors.ts';
import type { DemoRequest, DemoResponse } from './response.ts';

/** Returns the error for a model name such as `fail-500`, or null for any other name. */
export function failureOf({ model }: DemoRequest, family: Family): DemoResponse | null {
  const [, status, seconds] = /^(?:fail-([45]\d\d)|rate-limited-(\d+))$/.exec(model) ?? [];
  if (status !== undefined) return errorResponse(family, { status: Number(status), message: failureMessage(status, model) });
  return seconds === undefined ? null : rateLimitResponse(family, model, { headers: { 'retry-after': seconds } });
}

/** Returns the number of deltas after which the stream breaks off. For most models, that's infinity. */
export function breakAfter({ model }: DemoRequest): number {
  return Number(/^break-after-(\d+)$/.exec(model)?.[1] ?? Infinity);
}

export function repeatsBody({ model }: DemoRequest): boolean {
  return model === 'echo-body';
}

function failureMessage(status: string, model: string): string {
  return `The demo vendor was asked to fail with ${status} by the model name '${model}'.`;
}
