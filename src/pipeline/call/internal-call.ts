/** Makes the gateway's own calls to a project's models. They're routed, recorded and charged like any other call. */
import { type Call, type Caller, internalKeyId, memoryApplication, noCorrelation, noMemory } from '../../core/call.ts';
import { scanObject } from '../../core/json/spans.ts';
import type { Clock } from '../../core/time.ts';
import { chat } from '../../dialects/chat/codec.ts';
import { findTier, type RoutingView } from '../../routing/rules.ts';
import { type CallCancellation, startCancellation } from './cancellation.ts';
import type { ProjectContext } from './project-context.ts';

/** A project for which project memory calls models. */
export interface MemoryProject {
  readonly slug: string;
  readonly settings: ProjectContext;
}

/** Returns the first of `tiers` that has any models, or null if they're all empty or missing. */
export function findTierWithChain(view: RoutingView, tiers: readonly string[]): string | null {
  return tiers.find((tier) => (findTier(view, tier) ?? []).length > 0) ?? null;
}

/**
 * Returns the caller of background calls. It has no virtual key, so only the ceilings of the project and application
 * apply.
 */
export function backgroundCaller(projectId: string): Caller {
  return { keyId: internalKeyId, keyPrefix: 'gateway', quotaKeyId: internalKeyId, projectId, models: null, expiresAt: null };
}

interface InternalCallOptions
  extends Pick<Call, 'id' | 'route' | 'caller'>,
    Partial<
      Pick<
        Call,
        'source' | 'hasExplicitSource' | 'stream' | 'maxOutputTokens' | 'cache' | 'correlation' | 'isInternal' | 'isExemptFromCallCeiling'
      >
    > {
  readonly slug: string;
  readonly model: string;
  /** Body fields other than `model`. */
  readonly members: Readonly<Record<string, unknown>>;
  /** The timeout for all attempts together. */
  readonly timeoutMs: number;
  readonly now: number;
}

/**
 * Builds a call that doesn't use memory or forward any headers. Unless you override it, the call is charged to project
 * memory and bypasses the response cache. A cached response would be useless there, because memory only repeats a
 * request if it couldn't use the first response.
 */
export function buildInternalCall({ slug, model, members, timeoutMs, now, ...options }: InternalCallOptions): Call {
  const body = Buffer.from(JSON.stringify({ model, ...members }));
  return {
    source: memoryApplication,
    hasExplicitSource: true,
    maxOutputTokens: null,
    cache: { reads: false, writes: false },
    correlation: noCorrelation,
    stream: false,
    ...options,
    startedAt: now,
    projectSlug: slug,
    requestedModel: model,
    body,
    spans: scanObject(body),
    memory: noMemory,
    deadlineAt: now + timeoutMs,
    forwardedHeaders: {},
  };
}

export interface InternalRun<Response> {
  readonly handleCall: (call: Call, project: ProjectContext, cancellation: CallCancellation) => Promise<Response>;
  readonly call: Call;
  readonly project: ProjectContext;
  readonly clock: Clock;
  readonly signal?: AbortSignal;
}

/** Handles an internal call within its deadline. Throws the same errors as `handleCall`. */
export async function runInternalCall<Response>({ handleCall, call, project, clock, signal }: InternalRun<Response>): Promise<Response> {
  // The call is cancelled through `clientDisconnected`, which only affects streaming calls. So if there's a signal,
  // treat this call as a streaming one.
  const cancellation = startCancellation({ stream: signal !== undefined, deadlineAt: call.deadlineAt, clock });
  signal?.addEventListener('abort', cancellation.clientDisconnected, { once: true });
  try {
    return await handleCall(call, project, cancellation);
  } finally {
    signal?.removeEventListener('abort', cancellation.clientDisconnected);
    cancellation.clearDeadline();
  }
}

/** Returns the messages of a chat completion with a system prompt. */
export function promptMessages(system: string, text: string): readonly object[] {
  return [
    { role: 'system', content: system },
    { role: 'user', content: text },
  ];
}

/** The parts of a response that `completionText` reads. */
export type CompletionResponse = { readonly kind: 'plain'; readonly bytes: Buffer } | { readonly kind: 'stream' };

/** Returns the text of a chat completion, or an empty string if it has none. */
export function completionText(response: CompletionResponse): string {
  return response.kind === 'plain' ? (chat.parseResponse(response.bytes)?.turn.text ?? '') : '';
}
