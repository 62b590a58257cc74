/**
 * The values that pass through the gateway, as plain immutable data. docs/glossary.md defines these terms:
 *
 * - **Call**: one inference request of an application.
 * - **Candidate**: a model at a provider that could serve the call (`candidate.ts`). The ordered candidates of a call
 *   are its **plan**.
 * - **Attempt**: one request to one candidate.
 * - **Result**: how the call ended, with tokens and cost.
 *
 * Names end in their unit: `…Ms` is milliseconds, `…Nanos` is nano-dollars (1e-9 USD), and `…Bytes` is bytes. Times
 * named `…At` are milliseconds since 1970 in memory and RFC 3339 on the wire.
 */
import type { BodySpans } from './json/spans.ts';
import type { CallUnits, Tokens, Units } from './pricing.ts';
import type { StoreDownPolicy } from './windows.ts';

/** The wire format of a caller or a vendor, which is either OpenAI's chat completions or Anthropic's messages. */
export type Dialect = 'chat' | 'messages';

/**
 * The inference routes. Calls to `chat` and `messages` can be served by vendors of either dialect. Requests to the
 * other routes are passed through to the same path.
 */
export const textRoutes = ['chat', 'messages', 'embeddings', 'moderations', 'rerank', 'responses'] as const;
export type TextRoute = (typeof textRoutes)[number];

/** Media routes. Their calls go to exactly one provider, and there's no cache, failover or deadline. */
export type MediaRoute = 'images' | 'speech' | 'transcriptions' | 'video';

export const routes = [...textRoutes, 'images', 'speech', 'transcriptions', 'video'] as const;
export type Route = TextRoute | MediaRoute;

/** The routes that accept prompts. We store their prompts and responses, and memory can learn from them. */
export type PromptRoute = Dialect | 'responses';

/**
 * Returns true if this is one of the two dialects that we can translate into each other. `name` can be a route or the
 * dialect of a provider.
 */
export function isDialect(name: string): name is Dialect {
  return name === 'chat' || name === 'messages';
}

export function isPromptRoute(route: Route): route is PromptRoute {
  return isDialect(route) || route === 'responses';
}

/** The kind of model that serves a route, which is also the name of the operation in metrics and traces. */
export function kindOf(route: Route): Exclude<Route, 'messages' | 'responses'> {
  return isPromptRoute(route) ? 'chat' : route;
}

/** The model chain of each tier, by tier name. Chains are in order of preference. */
export type Tiers = Readonly<Record<string, readonly string[]>>;

/** The identity of a valid virtual key, without its secret. */
export interface Caller {
  readonly keyId: string;
  readonly keyPrefix: string;
  /**
   * The id under which we count the key's usage. A rotated key keeps counting under the id of the first key in its
   * chain of rotations. For any other key, this is its own id.
   */
  readonly quotaKeyId: string;
  readonly projectId: string;
  /** The models (ids or tier names) that the key may use. Null for all. */
  readonly models: readonly string[] | null;
  readonly expiresAt: number | null;
  /** Takes precedence over the project's policy, unless it's null. */
  readonly onBudgetStoreDown?: StoreDownPolicy | null;
  /** We apply this output limit to calls that don't set one. Absent or null if the key has no default. */
  readonly defaultMaxOutputTokens?: number | null;
  /** The tags that the key requires of every provider, in addition to those of the project. */
  readonly requiredTags?: readonly string[];
}

/**
 * Stands in for the key id in the gateway's own background calls, which are limited by the project but not by any key.
 */
export const internalKeyId = '00000000-0000-0000-0000-000000000000';

/** How this call uses the project memory, as requested by the caller. See docs/api/reference.md#request-headers. */
export interface MemoryOptions {
  readonly mode: 'write' | 'recall' | 'off';
  /**
   * True if the caller sent `x-gateway-memory: write`. With this header we also learn from conversations that consist
   * of a single call.
   */
  readonly explicitWrite: boolean;
  /**
   * The end user that the call is about, from the header or the body. Null if unknown. This is private and must never
   * be logged.
   */
  readonly subject: string | null;
  /** Set if the caller sent an invalid subject. Recall then skips all memories that belong to end users. */
  readonly isSubjectInvalid?: true;
  /**
   * True if the memory settings allowed recording when the call was made. Absent if we couldn't read the settings, and
   * in records from older versions. In that case we check the settings when we store the call.
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

/** Fields that calls and their records have in common. */
interface CallIdentity {
  /** UUIDv7 with the time `startedAt`. */
  readonly id: string;
  readonly startedAt: number;
  /** The calling application. Defaults to the project slug. */
  readonly source: string;
  readonly correlation: Correlation;
}

/** What calls have in common on all routes, apart from what's also in their records. */
interface RequestedCall extends CallIdentity {
  /**
   * True if the caller sent `x-gateway-source`. One of the recording rules depends on this, see
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
  /** Set if the caller didn't ask for usage in its stream. We then drop events that only report usage. */
  readonly hidesUsage?: true;
  readonly body: Buffer;
  readonly spans: BodySpans;
  /**
   * The caller's limit for output tokens, or the key's default if the caller didn't set one. Null if there's neither.
   */
  readonly maxOutputTokens: number | null;
  /**
   * Set if the caller didn't limit the output but the key has a default limit. We then add this limit to the request
   * body.
   */
  readonly addsOutputLimit?: true;
  readonly memory: MemoryOptions;
  readonly cache: CacheDirectives;
  /** The deadline for all attempts, which the caller sets with `x-gateway-timeout-ms`. Null if there is none. */
  readonly deadlineAt: number | null;
  /**
   * How long an attempt may take to deliver its first content, if the caller limits this with
   * `x-gateway-first-content-timeout-ms`.
   */
  readonly firstContentTimeoutMs?: number;
  /** The caller's headers that we forward to vendors, with names in lower case. */
  readonly forwardedHeaders: Readonly<Record<string, string>>;
  /**
   * Set if the gateway itself calls a model with text that is stored elsewhere, such as a conversation. We record and
   * charge the call, but don't store its text, because erasing the original wouldn't erase the copy.
   */
  readonly isInternal?: true;
  /**
   * Set if this call was made on behalf of another call with the same key. It doesn't count against the key's `calls`
   * ceiling, because the original call already did.
   */
  readonly isExemptFromCallCeiling?: true;
}

/** A call of a media route, as we record it. The parameters of the individual routes aren't included. */
export interface MediaCall extends RequestedCall {
  readonly route: MediaRoute;
  readonly caller: Caller;
  readonly projectSlug: string;
  readonly bodyBytes: number;
}

/** An entry of the plan that we record with a call. It names either a candidate, or a model that we skipped and why. */
export interface PlanEntry {
  readonly model: string;
  readonly skipped: string | null;
  /** The required tags that the provider doesn't have. Only set with the reason `tags_missing`. */
  readonly lacks?: readonly string[];
  /** Set if this call belongs to the share that tries the tier's canary. */
  readonly canary?: string;
  /** The opposite of `canary`: set if the tier has one but this call doesn't try it. */
  readonly control?: string;
  /** Set if the model isn't in the configured chain and was added by catalog fill. */
  readonly filled?: true;
}

export const outcomes = ['ok', 'refused', 'failed', 'interrupted', 'client_left', 'deadline', 'unknown'] as const;
export type Outcome = (typeof outcomes)[number];

/**
 * Says why an attempt failed. We keep this for a limited time, and show it to people who have access to the project.
 */
export interface AttemptError {
  /**
   * The kind of failure: a `VendorErrorKind`, `deadline`, or `lost` if the process died. This is a plain string because
   * newer versions may write other values.
   */
  readonly reason: string;
  /** The vendor's type and code, or a system error code such as ECONNREFUSED. */
  readonly type: string | null;
  readonly code: string | null;
  /**
   * An excerpt of the vendor's message. Secrets are masked, and text from the request is removed. Null if there was no
   * message, or if the call's subject was erased.
   */
  readonly message: string | null;
}

export interface Attempt {
  /** The number of the attempt within the call. The first one is 1. */
  readonly n: number;
  readonly provider: string;
  readonly model: string;
  /** The name of the pool member that we called. Absent if the provider has no pool. */
  readonly member?: string;
  /** The vendor's HTTP status. Null if there was no response. */
  readonly status: number | null;
  readonly outcome: Outcome;
  /** The vendor's id for the request, which its support team needs to investigate. Absent if the vendor sent none. */
  readonly requestId?: string;
  /** How long we waited before this attempt because of a vendor's `Retry-After`. */
  readonly waitMs: number;
  readonly startedAt: number;
  readonly firstByteMs: number | null;
  readonly durationMs: number;
  readonly tokens: Tokens;
  /** Null if the price is unknown. */
  readonly costNanos: number | null;
  /**
   * Set if the vendor reported no token counts but may still bill this attempt. Always absent for the attempt that
   * served the call.
   */
  readonly estimated?: true;
  /** Set if the attempt failed. */
  readonly error?: AttemptError;
}

/**
 * What we know about a call before its first attempt. The journal's `opened` records contain this, so we have to keep
 * the field names that older versions wrote.
 */
export interface CallMetadata extends CallIdentity, Pick<Caller, 'projectId' | 'keyId' | 'keyPrefix'> {
  /** Stores `hasExplicitSource`. */
  readonly sourceGiven: boolean;
  readonly route: Route;
  /** Stores `requestedModel`. */
  readonly modelAsked: string;
  readonly stream: boolean;
  readonly memory: MemoryOptions;
  readonly plan: readonly PlanEntry[];
  /**
   * The size of the request in bytes. If the process dies, we estimate the call's tokens as a quarter of this. On text
   * routes, media in the body counts like text of the same size in tokens.
   */
  readonly bodyBytes: number;
  /** Stores `isExemptFromCallCeiling`. */
  readonly takesNoSlot?: true;
  /** The requested units of a media call. We charge these if the process dies before the call settles. */
  readonly units?: Units;
  /**
   * Set if the call was admitted without checking ceilings because the quota store was unavailable. We count its usage
   * when we store it.
   */
  readonly unmetered?: true;
  /** The trace context (W3C `traceparent`) of a sampled call. */
  readonly trace?: string;
}

export interface CallResult {
  readonly outcome: Outcome;
  /** The HTTP status of the response to the caller. */
  readonly status: number;
  /** The error code. Null if the call succeeded. */
  readonly code: string | null;
  /** The `<provider>/<model>` that served the call. Null if no model did. */
  readonly model: string | null;
  readonly cache: 'hit' | 'miss' | null;
  readonly tokens: Tokens;
  readonly costNanos: number | null;
  /** Absent for calls that are only charged by token. */
  readonly units?: CallUnits;
  /** True if the tokens, and therefore the cost, are our own estimates because the vendor's final count is missing. */
  readonly estimated: boolean;
  readonly durationMs: number;
  readonly firstByteMs: number | null;
  readonly attempts: readonly Attempt[];
  /**
   * How much usage to deduct from which leases. `process` is the journal id of the process that holds the leases.
   * Absent if no ceiling applied to the call.
   */
  readonly consumed?: {
    readonly process: string;
    readonly amounts: readonly ConsumedAmount[];
  };
}

/** A deduction from one lease. */
export interface ConsumedAmount {
  /** Id of the row in `limit_counters`. */
  readonly counter: number;
  readonly generation: number;
  readonly amount: number;
  /** The part of the usage that went beyond the lease (overdraft). */
  readonly owed?: number;
}

/** The assistant's part of a response, which memory can learn from. */
export interface AssistantTurn {
  readonly text: string;
  readonly toolCalls: readonly { readonly name: string; readonly arguments: string }[];
}

/** The text of a call: the caller's unchanged body, and the assistant's turn if there is one. */
export interface CallContent {
  readonly request: Buffer;
  readonly response: AssistantTurn | null;
  /**
   * The ids of the memory items that we inserted into the prompt. `request` doesn't include their text. Absent if we
   * didn't insert any.
   */
  readonly recalled?: readonly string[];
  /**
   * Our estimate of how many tokens the inserted memory items added to the prompt. Absent if we didn't insert any, and
   * in records from older versions.
   */
  readonly recalledTokens?: number;
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
 * The gateway's own model calls for project memory are charged to this application
 * (docs/api/reference.md#memory-rules).
 */
export const memoryApplication = 'gateway-memory';

/** Calls that people make in the console's playground are charged to this application. */
export const playgroundApplication = 'gateway-playground';

/** The memory options of a call that neither reads nor writes memory. */
export const noMemory: MemoryOptions = { mode: 'off', explicitWrite: false, subject: null };
