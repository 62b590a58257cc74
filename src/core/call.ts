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

/** The media routes. A call to one of them goes to exactly one provider, without cache, failover or deadline. */
export type MediaRoute = 'images' | 'speech' | 'transcriptions' | 'video';

export const routes = [...textRoutes, 'images', 'speech', 'transcriptions', 'video'] as const;
export type Route = TextRoute | MediaRoute;

/** The routes that take prompts. We store their prompts and responses, and memory can learn from them. */
export type PromptRoute = Dialect | 'responses';

/**
 * Returns true if `name` is one of the two dialects that we can translate into each other. You can pass a route or the
 * dialect of a provider.
 */
export function isDialect(name: string): name is Dialect {
  return name === 'chat' || name === 'messages';
}

export function isPromptRoute(route: Route): route is PromptRoute {
  return isDialect(route) || route === 'responses';
}

/** Returns the kind of model that a route needs. Metrics and traces use it as the name of the operation. */
export function kindOf(route: Route): Exclude<Route, 'messages' | 'responses'> {
  return isPromptRoute(route) ? 'chat' : route;
}

/** The models of each tier, with the preferred one first. */
export type Tiers = Readonly<Record<string, readonly string[]>>;

/** The caller of a request, identified by a valid virtual key. This doesn't include the key's secret. */
export interface Caller {
  readonly keyId: string;
  readonly keyPrefix: string;
  /**
   * We count the key's usage under this id. Normally it's the key's own id. Successors of a rotated key use the id of
   * the first key, so rotating a key doesn't reset its usage.
   */
  readonly quotaKeyId: string;
  readonly projectId: string;
  /** The model ids and tier names that the key may use. Null if there's no restriction. */
  readonly models: readonly string[] | null;
  readonly expiresAt: number | null;
  /** Overrides the project's store-down policy, unless it's null. */
  readonly onBudgetStoreDown?: StoreDownPolicy | null;
  /** The output limit for calls that don't set one themselves. Absent or null if the key has no default. */
  readonly defaultMaxOutputTokens?: number | null;
  /**
   * The tags that a provider must have to serve calls of this key, in addition to the tags that the project requires.
   */
  readonly requiredTags?: readonly string[];
}

/**
 * Our own background calls have this id in place of a key id. They're limited by the project's ceilings, but there's no
 * key with ceilings of its own.
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
   * The end user that the call is about, if we know it from the header or the body. This is private and must never be
   * logged.
   */
  readonly subject: string | null;
  /** Set if the caller sent an invalid subject. Recall then ignores all memories about end users. */
  readonly isSubjectInvalid?: true;
  /**
   * True if the memory settings allowed us to record the call when it was made. If this is absent (because we couldn't
   * read the settings, or in older records), we decide when we store the call.
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
 * The correlation headers. We only record them with the call, and they have no effect on routing or ceilings. See
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

interface CallIdentity {
  /** A UUIDv7 created at `startedAt`. */
  readonly id: string;
  readonly startedAt: number;
  /** The calling application. Defaults to the project slug. */
  readonly source: string;
  readonly correlation: Correlation;
}

interface RequestedCall extends CallIdentity {
  /**
   * True if the caller sent `x-gateway-source`, which affects whether memory records the call
   * (docs/api/reference.md#memory-rules).
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
  /**
   * Set if the caller of a stream didn't ask for usage. We request usage from the vendor anyway, and drop events that
   * contain only usage.
   */
  readonly hidesUsage?: true;
  readonly body: Buffer;
  readonly spans: BodySpans;
  /** The caller's output limit. If the caller didn't set one, this is the default limit of the key. */
  readonly maxOutputTokens: number | null;
  /** Set if `maxOutputTokens` is the key's default, so we have to add the limit to the request body. */
  readonly addsOutputLimit?: true;
  readonly memory: MemoryOptions;
  readonly cache: CacheDirectives;
  /** The deadline from `x-gateway-timeout-ms`, for all attempts together. */
  readonly deadlineAt: number | null;
  /** Limits how long an attempt may take to deliver its first content (`x-gateway-first-content-timeout-ms`). */
  readonly firstContentTimeoutMs?: number;
  /** The headers that we forward to vendors, with names in lower case. */
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

/** A media call, with the fields that we record. Parameters such as the image size aren't among them. */
export interface MediaCall extends RequestedCall {
  readonly route: MediaRoute;
  readonly caller: Caller;
  readonly projectSlug: string;
  readonly bodyBytes: number;
}

/**
 * An entry in the recorded plan of a call. It's either a candidate, or a model that we skipped and the reason for that.
 */
export interface PlanEntry {
  readonly model: string;
  readonly skipped: string | null;
  /** The required tags that the provider doesn't have. Only set if the reason is `tags_missing`. */
  readonly lacks?: readonly string[];
  /** Set if this model is the canary of a tier and we try it for this call. Contains the name of the tier. */
  readonly canary?: string;
  /**
   * Set if this call is in the control group of a tier's canary, i.e. it could have tried the canary but didn't.
   * Contains the name of the tier.
   */
  readonly control?: string;
  /** Set if the model isn't in the configured chain, but was added by catalog fill. */
  readonly filled?: true;
}

export const outcomes = ['ok', 'refused', 'failed', 'interrupted', 'client_left', 'deadline', 'unknown'] as const;
export type Outcome = (typeof outcomes)[number];

/** The reason why an attempt failed. It's stored for a limited time and shown to members of the project. */
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
  /** The number of the attempt within its call, starting at 1. */
  readonly n: number;
  readonly provider: string;
  readonly model: string;
  readonly member?: string;
  readonly status: number | null;
  readonly outcome: Outcome;
  /** The vendor's own id for the request, which its support team asks for. Not all vendors send one. */
  readonly requestId?: string;
  /** How long we waited before this attempt because the vendor sent `Retry-After`. */
  readonly waitMs: number;
  readonly startedAt: number;
  readonly firstByteMs: number | null;
  readonly durationMs: number;
  readonly tokens: Tokens;
  /** Null if the model has no known price. */
  readonly costNanos: number | null;
  /**
   * Set if the token counts are our estimate, because the vendor may bill the attempt but didn't report any. Always
   * absent for the attempt that served the call.
   */
  readonly estimated?: true;
  readonly error?: AttemptError;
}

/**
 * Everything that we know about a call before its first attempt. The journal writes this into its `opened` records, so
 * we have to keep the names of fields from older versions.
 */
export interface CallMetadata extends CallIdentity, Pick<Caller, 'projectId' | 'keyId' | 'keyPrefix'> {
  /** The journal's name for `hasExplicitSource`. */
  readonly sourceGiven: boolean;
  readonly route: Route;
  /** The journal's name for `requestedModel`. */
  readonly modelAsked: string;
  readonly stream: boolean;
  readonly memory: MemoryOptions;
  readonly plan: readonly PlanEntry[];
  /**
   * The size of the request in bytes. If the process dies before the call settles, we estimate one token per four
   * bytes. On text routes, this includes media in the body.
   */
  readonly bodyBytes: number;
  /** The journal's name for `isExemptFromCallCeiling`. */
  readonly takesNoSlot?: true;
  /** The requested units of a media call, which we charge if the process dies before the call settles. */
  readonly units?: Units;
  /**
   * Set if the quota store was unavailable and we admitted the call without checking its ceilings. We count its usage
   * when we store the call.
   */
  readonly unmetered?: true;
  /** The W3C `traceparent`, if the call is sampled. */
  readonly trace?: string;
}

export interface CallResult {
  readonly outcome: Outcome;
  readonly status: number;
  /** The error code that the caller got, or null if the call succeeded. */
  readonly code: string | null;
  /** `<provider>/<model>`, or null if no model served the call. */
  readonly model: string | null;
  readonly cache: 'hit' | 'miss' | null;
  readonly tokens: Tokens;
  readonly costNanos: number | null;
  /** The units that the call is charged for in addition to its tokens. Absent if it's only charged by token. */
  readonly units?: CallUnits;
  /** True if the tokens, and therefore the cost, are our own estimates because the vendor's final count is missing. */
  readonly estimated: boolean;
  readonly durationMs: number;
  readonly firstByteMs: number | null;
  readonly attempts: readonly Attempt[];
  /**
   * The usage that we deduct from leases when we store the call. Absent if no ceiling applies to the call. `process` is
   * the journal id of the process that holds the leases.
   */
  readonly consumed?: {
    readonly process: string;
    readonly amounts: readonly ConsumedAmount[];
  };
}

/** A deduction from one lease. */
export interface ConsumedAmount {
  /** The id of the row in `limit_counters`. */
  readonly counter: number;
  readonly generation: number;
  readonly amount: number;
  /** The part of `amount` that the lease didn't cover (the overdraft). */
  readonly owed?: number;
}

export interface AssistantTurn {
  readonly text: string;
  readonly toolCalls: readonly { readonly name: string; readonly arguments: string }[];
}

/** The text of a call, which is the caller's original request body and the assistant's turn in the response. */
export interface CallContent {
  readonly request: Buffer;
  readonly response: AssistantTurn | null;
  /**
   * The ids of the memory items that we inserted into the prompt. Their text isn't part of `request`. Absent if we
   * didn't insert any.
   */
  readonly recalled?: readonly string[];
  /**
   * Our estimate of how many tokens the inserted memory items added to the prompt. Absent if we didn't insert any, and
   * in records from older versions.
   */
  readonly recalledTokens?: number;
}

/** A finished call. The journal keeps it until the database has stored it. */
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

/** Memory options that turn off both recall and recording. */
export const noMemory: MemoryOptions = { mode: 'off', explicitWrite: false, subject: null };
