/** The gateway's own calls of a project's models: recorded and paid like any call, under the application `gateway-memory` (specification 4.8 rule 9). */
import type { Call, Caller, TextRoute } from '../../core/call.ts';
import { internalKeyId, noCorrelation } from '../../core/call.ts';
import { scanObject } from '../../core/json/spans.ts';

export const memoryApplication = 'gateway-memory';

/** Of calls in the background: no key of a caller stands behind them, so none of its ceilings does. */
export function backgroundCaller(projectId: string): Caller {
  return { keyId: internalKeyId, keyPrefix: 'gateway', quotaKeyId: internalKeyId, projectId, models: null, expiresAt: null };
}

export interface InternalCallOptions {
  readonly id: string;
  readonly route: TextRoute;
  readonly caller: Caller;
  readonly slug: string;
  readonly tier: string;
  /** Members of the body beside `model`. */
  readonly members: Readonly<Record<string, unknown>>;
  /** For all attempts along the chain. */
  readonly timeoutMs: number;
  readonly now: number;
}

/**
 * Of a tier, without what a caller's headers say, memory and the cache: the same question is asked again only because its first answer was of
 * no use.
 */
export function buildInternalCall({ id, route, caller, slug, tier, members, timeoutMs, now }: InternalCallOptions): Call {
  const body = Buffer.from(JSON.stringify({ model: tier, ...members }));
  return {
    id,
    startedAt: now,
    route,
    caller,
    projectSlug: slug,
    source: memoryApplication,
    sourceGiven: true,
    modelAsked: tier,
    stream: false,
    body,
    spans: scanObject(body),
    maxOutputTokens: null,
    memory: { mode: 'off', explicitWrite: false, subject: null },
    cache: { reads: false, writes: false },
    correlation: noCorrelation,
    deadlineAt: now + timeoutMs,
    forwardedHeaders: {},
  };
}
