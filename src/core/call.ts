/**
 * The values that pass through the gateway, as plain immutable data. docs/glossary.md defines these terms:
 *
 * - **Call**: one inference request of an application.
 * - **Candidate**: a model at a provider that may serve the call (`candidate.ts`). The ordered candidates of a call are
 *   its **plan**.
 * - **Attempt**: one request to one candidate.
 * - **Result**: how the call ended, with tokens and cost.
 *
 * Names end in their unit, which is milliseconds for `…Ms`, nano-dollars (1e-9 USD) for `…Nanos`, and bytes for
 * `…Bytes`. Times named `…At` are milliseconds since 1970 in memory and RFC 3339 on the wire.
 */
import type { BodySpans } from './json/spans.ts';
import type { CallUnits, Tokens, Units } from './pricing.ts';
import type { StoreDownPolicy } from './windows.ts';

/** The wire format of a caller or a vendor, which is either OpenAI's chat completions or Anthropic's messages. */
export type Dialect = 'chat' | 'messages';

/**
 * The inference routes. Vendors of either dialect can serve the first two. The others are passed through to the same
 * path.
 */
export const textRoutes = ['chat', 'messages', 'embeddings', 'moderations', 'rerank', 'responses'] as const;
export type TextRoute = (typeof textRoutes)[number];

/** The routes whose calls go to exactly one provider, without cache, failover and deadline. */
export type MediaRoute = 'images' | 'speech' | 'transcriptions' | 'video';

/** The routes whose calls are stored. */
export const routes = [...textRoutes, 'images', 'speech', 'transcriptions', 'video'] as const;
export type Route = TextRoute | MediaRoute;

/** The routes with prompts. Their texts are stored, and memory may record them. */
export type PromptRoute = Dialect | 'responses';

/** Reports whether a route or a provider's dialect is one of the two that we translate into each other. */
export function isDialect(name: string): name is Dialect {
  return name === 'chat' || name === 'messages';
}

export function isPromptRoute(route: Route): route is PromptRoute {
  return isDialect(route) || route === 'responses';
}

/** Chains of models by tier name, in order of preference. */
export type Tiers = Readonly<Record<string, readonly string[]>>;

/** The identity of a valid virtual key, without its secret. */
export interface Caller {
  readonly keyId: string;
  readonly keyPrefix: string;
  /**
   * The id under which we count the key's usage. It's the key's own id, or the id of the first key in its chain of
   * rotations.
   */
  readonly quotaKeyId: string;
  readonly projectId: string;
  /** The models (ids or tier names) that the key may use. Null for all. */
  readonly models: readonly string[] | null;
  readonly expiresAt: number | null;
  /** If this is absent or null, the project's policy applies. */
  readonly onBudgetStoreDown?: StoreDownPolicy | null;
  /** The output limit for calls that don't set one. Absent or null if the key has no default. */
  readonly defaultMaxOutputTokens?: number | null;
  /** The tags that the key requires of every provider, in addition to those of the project. */
  readonly requiredTags?: readonly string[];
}

/**
 * Stands in for the key id in the gateway's own background calls, which are limited by the project but not by any key.
 */
export const internalKeyId = '00000000-0000-0000-0000-000000000000';

/** The caller's settings of the project memory for this call. See docs/api/reference.md#request-headers. */
export interface MemoryOptions {
  readonly mode: 'write' | 'recall' | 'off';
  /**
   * True if the caller sent `x-gateway-memory: write`. This lets us learn even from a conversation of a single call.
   */
  readonly explicitWrite: boolean;
  /**
   * The end user that the call is about, from the header or the body. Null if unknown. This is private and must never
   * be logged.
   */
  readonly subject: string | null;
  /** Set if the caller sent an invalid subject. Recall must not read the memories of other end users in that case. */
  readonly isSubjectInvalid?: true;
  /**
   * Whether the memory settings at the time of the call allowed us to record it. Absent if we couldn't read them, and
   * in records of older versions. In that case the settings at the time when the call is stored decide.
   */
  readonly isRecorded?: boolean;
}

/** The caller's directives for the response cache (`cache-control`). */
export interface CacheDirectives {
  readonly reads: boolean;
  readonly writes: boolean;
  /** The maximum age of a cached response. If this is absent, the project's cache lifetime decides. */
  readonly maxAgeMs?: number;
}

/**
 * The correlation headers. We record them with the call, and they don't affect routing or ceilings. See
 * docs/api/reference.md#correlation-headers.
 */
export interface Correlation {
  readonly taskId: string | null;
  readonly turnId: string | null;
  readonly agentId: string | null;
  readonly triggerKind: string | null;
  readonly triggerDetail: string | null;
  readonly iteration: number | null;
  readonly distilSaved: number | null;
}

export const noCorrelation: Correlation = {
  taskId: null,
  turnId: null,
  agentId: null,
  triggerKind: null,
  triggerDetail: null,
  iteration: null,
  distilSaved: null,
};

/** Members that every kind of call and its record have in common. */
interface CallIdentity {
  /** A UUIDv7 with the time `startedAt`. */
  readonly id: string;
  readonly startedAt: number;
  /** The calling application. Defaults to the project slug. */
  readonly source: string;
  readonly correlation: Correlation;
}

/** Members that the calls of all routes have in common. */
interface RequestedCall extends CallIdentity {
  /**
   * True if the caller sent `x-gateway-source`. A rule for recording depends on this, see
   * docs/api/reference.md#memory-rules.
   */
  readonly hasExplicitSource: boolean;
  /** The model that the caller requested, or `auto` if it didn't request one. */
  readonly requestedModel: string;
}

export interface Call extends RequestedCall {
  readonly route: TextRoute;
  readonly caller: Caller;
  readonly projectSlug: string;
  readonly stream: boolean;
  /** Set if the caller didn't ask for usage in its stream, so that we leave out events that only report usage. */
  readonly hidesUsage?: true;
  readonly body: Buffer;
  readonly spans: BodySpans;
  /** The caller's limit of output tokens, or else the default of the caller's key. Null if neither is set. */
  readonly maxOutputTokens: number | null;
  /** Set if the caller sent no limit but the key has a default, which we then add to the vendor's body. */
  readonly addsOutputLimit?: true;
  readonly memory: MemoryOptions;
  readonly cache: CacheDirectives;
  /** The time at which all attempts end (`x-gateway-timeout-ms`). Null if there is no deadline. */
  readonly deadlineAt: number | null;
  /**
   * The longest that an attempt may wait for its first content, if the caller sets this
   * (`x-gateway-first-content-timeout-ms`).
   */
  readonly firstContentTimeoutMs?: number;
  /** The caller's headers that we forward to vendors, with names in lower case. */
  readonly forwardedHeaders: Readonly<Record<string, string>>;
  /**
   * Set for a model call of the gateway about texts that are stored elsewhere, such as a caller's call or
   * conversations. We record and charge such a call, but don't store its text, because an erasure of the original
   * wouldn't find the copy.
   */
  readonly isInternal?: true;
  /**
   * Set for a call that's made for another call of the same key. The key's ceiling `calls` only counts the other one.
   */
  readonly isExemptFromCallCeiling?: true;
}

/** A request of a media route as we record it, without the parameters of its route. */
export interface MediaCall extends RequestedCall {
  readonly route: MediaRoute;
  readonly caller: Caller;
  readonly projectSlug: string;
  readonly bodyBytes: number;
}

/** An entry of a recorded plan, which is either a candidate or a skipped model with the reason. */
export interface PlanEntry {
  readonly model: string;
  readonly skipped: string | null;
  /** The required tags that the provider doesn't have. Only set with the reason `tags_missing`. */
  readonly lacks?: readonly string[];
  /** Set for the canary of this tier, if the call is one of those that try it. */
  readonly canary?: string;
  /** Set for the first model of the other calls of a tier that has a canary. */
  readonly control?: string;
  /** Set if the model is a substitute from catalog fill and not part of the chain. */
  readonly filled?: true;
}

/** How an attempt or a call ended. */
export const outcomes = ['ok', 'refused', 'failed', 'interrupted', 'client_left', 'deadline', 'unknown'] as const;
export type Outcome = (typeof outcomes)[number];

/** Why an attempt failed. We keep this for a limited time and show it to the members of the project. */
export interface AttemptError {
  /**
   * How it failed. This is a `VendorErrorKind`, `deadline`, or `lost` if the process died. It's a string because newer
   * versions may have other reasons.
   */
  readonly reason: string;
  /** The vendor's type and code, or a system error code such as ECONNREFUSED. */
  readonly type: string | null;
  readonly code: string | null;
  /**
   * An excerpt of the vendor's message, masked and without text of the request. Null if there is no message, or if the
   * call's subject was erased.
   */
  readonly message: string | null;
}

export interface Attempt {
  /** The number of the attempt, from 1. */
  readonly n: number;
  readonly provider: string;
  readonly model: string;
  /** The name of the member of the provider's pool. Absent if it has no pool. */
  readonly member?: string;
  /** The vendor's HTTP status. Null if there was no response. */
  readonly status: number | null;
  readonly outcome: Outcome;
  /** The id that the vendor gave the request, which its support asks for. Absent if it sent none. */
  readonly requestId?: string;
  /** The delay before this attempt (a vendor's `Retry-After`). */
  readonly waitMs: number;
  readonly startedAt: number;
  readonly firstByteMs: number | null;
  readonly durationMs: number;
  readonly tokens: Tokens;
  /** Null if the price is unknown. */
  readonly costNanos: number | null;
  /** Set if a vendor may bill an attempt that it reported no token counts for. Always absent for the attempt that served the call. */
  readonly estimated?: true;
  /** Only present if the attempt failed. */
  readonly error?: AttemptError;
}

/**
 * What we know about a call before its first attempt. This is the content of the journal's `opened` record, so its
 * members keep the names under which older versions wrote them.
 */
export interface CallMetadata extends CallIdentity, Pick<Caller, 'projectId' | 'keyId' | 'keyPrefix'> {
  /** `hasExplicitSource` of the call. */
  readonly sourceGiven: boolean;
  readonly route: Route;
  /** `requestedModel` of the call. */
  readonly modelAsked: string;
  readonly stream: boolean;
  readonly memory: MemoryOptions;
  readonly plan: readonly PlanEntry[];
  /**
   * The size of the request in bytes. If the process dies, we estimate its tokens as a quarter of this. On text routes,
   * media counts as much as text with the same number of tokens.
   */
  readonly bodyBytes: number;
  /** `isExemptFromCallCeiling` of the call. */
  readonly takesNoSlot?: true;
  /** The requested units of a media call. We charge these if the process dies before the call settles. */
  readonly units?: Units;
  /**
   * Set if the call was admitted without ceilings because the quota store was unavailable. It's counted when it's
   * stored.
   */
  readonly unmetered?: true;
  /** The trace context (W3C `traceparent`) of a sampled call. */
  readonly trace?: string;
}

export interface CallResult {
  readonly outcome: Outcome;
  /** The HTTP status of the response to the caller. */
  readonly status: number;
  /** The gateway's error code. Null on success. */
  readonly code: string | null;
  /** The `<provider>/<model>` that served the call. Null if no model did. */
  readonly model: string | null;
  readonly cache: 'hit' | 'miss' | null;
  readonly tokens: Tokens;
  readonly costNanos: number | null;
  /** Absent if the call is only charged by tokens. */
  readonly units?: CallUnits;
  /** True if the tokens, and therefore the cost, are our own estimates because the vendor's final count is missing. */
  readonly estimated: boolean;
  readonly durationMs: number;
  readonly firstByteMs: number | null;
  readonly attempts: readonly Attempt[];
  /** The usage to deduct from the leases of the process whose journal id is `process`. Absent if no ceiling applied. */
  readonly consumed?: {
    readonly process: string;
    readonly amounts: readonly ConsumedAmount[];
  };
}

/** The usage of a call that's deducted from a lease. */
export interface ConsumedAmount {
  /** The id of a row in `limit_counters`. */
  readonly counter: number;
  readonly generation: number;
  readonly amount: number;
  /** The overdraft, i.e. usage beyond the lease. */
  readonly owed?: number;
}

/** The assistant's part of a response, which memory may read. */
export interface AssistantTurn {
  readonly text: string;
  readonly toolCalls: readonly { readonly name: string; readonly arguments: string }[];
}

/** The text of a call, which is the caller's unchanged body and the assistant's turn if there is one. */
export interface CallContent {
  readonly request: Buffer;
  readonly response: AssistantTurn | null;
  /**
   * The ids of the memory items that we inserted into the prompt. Their text isn't part of `request`. Absent if there
   * were none.
   */
  readonly recalled?: readonly string[];
}

/** A settled call, as the journal keeps it until the database has stored it. */
export interface SettledCall {
  readonly metadata: CallMetadata;
  readonly result: CallResult;
  /**
   * Null if there is no text to store, because the call failed before it reached a vendor or its text isn't recorded.
   */
  readonly content: CallContent | null;
}

/**
 * The application to which we charge the gateway's own calls, which are those of project memory
 * (docs/api/reference.md#memory-rules).
 */
export const memoryApplication = 'gateway-memory';

/** The memory options of a call that neither reads nor writes memory. */
export const noMemory: MemoryOptions = { mode: 'off', explicitWrite: false, subject: null };
