/**
 * The values that pass through the gateway, as plain immutable data. Terms are defined in docs/glossary.md:
 *
 * - **Call**: one inference request of an application.
 * - **Candidate**: a model at a provider that may serve the call (`candidate.ts`). The ordered candidates of a call are its **plan**.
 * - **Attempt**: one request to one candidate.
 * - **Result**: how the call ended, with tokens and cost.
 *
 * Names end in their unit: `…Ms` milliseconds, `…Nanos` nano-dollars (1e-9 USD), `…Bytes`. Times named `…At` are milliseconds since 1970 in
 * memory and RFC 3339 on the wire.
 */
import type { BodySpans } from './json/spans.ts';
import type { CallUnits, Tokens, Units } from './pricing.ts';
import type { StoreDownPolicy } from './windows.ts';

/** Wire format of a caller or a vendor: OpenAI's chat completions or Anthropic's messages. */
export type Dialect = 'chat' | 'messages';

/** The inference routes: vendors of either dialect may serve the first two, the others pass through to the same path. */
export const textRoutes = ['chat', 'messages', 'embeddings', 'moderations', 'rerank', 'responses'] as const;
export type TextRoute = (typeof textRoutes)[number];

/** The routes whose calls go to exactly one provider, without cache, failover and deadline. */
export type MediaRoute = 'images' | 'speech' | 'transcriptions' | 'video';

/** The routes of stored calls. */
export const routes = [...textRoutes, 'images', 'speech', 'transcriptions', 'video'] as const;
export type Route = TextRoute | MediaRoute;

/** The routes with prompts, whose texts are stored and which memory may record. */
export type PromptRoute = Dialect | 'responses';

/** Whether a route or a provider's dialect is one of the two that are translated into each other. */
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
  /** Id under which the key's usage is counted: its own, or that of the first key in its chain of rotations. */
  readonly quotaKeyId: string;
  readonly projectId: string;
  /** Models (ids or tier names) the key may use; null for all. */
  readonly models: readonly string[] | null;
  readonly expiresAt: number | null;
  /** If this is absent or null, the project's policy applies. */
  readonly onBudgetStoreDown?: StoreDownPolicy | null;
  /** Output limit for calls that don't set one. Absent or null if the key has no default. */
  readonly defaultMaxOutputTokens?: number | null;
}

/** Replaces the key id in background calls of the gateway: the limits of the project apply, those of a key do not. */
export const internalKeyId = '00000000-0000-0000-0000-000000000000';

/** The caller's settings of the project memory for this call. See docs/api/reference.md#request-headers. */
export interface MemoryOptions {
  readonly mode: 'write' | 'recall' | 'off';
  /** The caller sent `x-gateway-memory: write`, which makes a conversation of one call learnable. */
  readonly explicitWrite: boolean;
  /** End user the call is about, from the header or the body; null when unknown. Private: never logged. */
  readonly subject: string | null;
  /** A subject was sent that is not valid, so recall must not read the memories of other end users. */
  readonly isSubjectInvalid?: true;
  /**
   * Whether the memory settings in force when the call was made let it be recorded. Absent when they could not be read, and in records of older
   * versions: the settings in force when the call is stored decide then.
   */
  readonly isRecorded?: boolean;
}

/** The caller's directives for the response cache (`cache-control`). */
export interface CacheDirectives {
  readonly reads: boolean;
  readonly writes: boolean;
  /** Maximum age of a cached response; absent: the project's cache lifetime decides. */
  readonly maxAgeMs?: number;
}

/** Correlation headers: recorded with the call, without effect on routing or ceilings. See docs/api/reference.md#correlation-headers. */
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

/** What every kind of call has, and its record. */
interface CallIdentity {
  /** UUIDv7 with the time `startedAt`. */
  readonly id: string;
  readonly startedAt: number;
  /** Application that calls; by default the project slug. */
  readonly source: string;
  /** The caller sent `x-gateway-source`, on which a rule of recording depends: docs/api/reference.md#memory-rules. */
  readonly sourceGiven: boolean;
  /** Model the caller requested; `auto` when absent. */
  readonly modelAsked: string;
  readonly correlation: Correlation;
}

export interface Call extends CallIdentity {
  readonly route: TextRoute;
  readonly caller: Caller;
  readonly projectSlug: string;
  readonly stream: boolean;
  /** The caller did not ask for usage in its stream: events that only report usage are not sent to it. */
  readonly hidesUsage?: true;
  readonly body: Buffer;
  readonly spans: BodySpans;
  /** The caller's limit of output tokens, or else the default of the caller's key. Null if neither is set. */
  readonly maxOutputTokens: number | null;
  /** Set if the caller sent no limit but the key has a default, which we then add to the vendor's body. */
  readonly addsOutputLimit?: true;
  readonly memory: MemoryOptions;
  readonly cache: CacheDirectives;
  /** Time at which all attempts end (`x-gateway-timeout-ms`); null when there is no deadline. */
  readonly deadlineAt: number | null;
  /** Longest wait of an attempt for its first content, as the caller asks (`x-gateway-first-content-timeout-ms`). */
  readonly firstContentTimeoutMs?: number;
  /** Headers of the caller that are forwarded to vendors; names in lower case. */
  readonly forwardedHeaders: Readonly<Record<string, string>>;
  /**
   * A model call of the gateway about texts stored elsewhere (a caller's call, conversations). It is recorded and charged, but its text is not
   * stored: an erasure of the original would not find the copy.
   */
  readonly isInternal?: true;
  /** Made for another call of the key, which takes the slot: the key's ceiling `calls` does not count this one. */
  readonly takesNoSlot?: true;
}

/** One request of a media route, as it is recorded, without the parameters of its route. */
export interface MediaCall extends CallIdentity {
  readonly route: MediaRoute;
  readonly caller: Caller;
  readonly projectSlug: string;
  readonly bodyBytes: number;
}

/** One entry of a recorded plan: a candidate, or a skipped model with the reason. */
export interface PlanEntry {
  readonly model: string;
  readonly skipped: string | null;
  /** A substitute from catalog fill, not a model of the chain. */
  readonly filled?: true;
}

/** How an attempt or a call ended. */
export const outcomes = ['ok', 'refused', 'failed', 'interrupted', 'client_left', 'deadline', 'unknown'] as const;
export type Outcome = (typeof outcomes)[number];

/** Why an attempt failed. Kept for a bounded time, and shown to the members of the project. */
export interface AttemptError {
  /** How it failed: a `VendorErrorKind`, `deadline`, or `lost` if the process died. Text, because newer versions may have others. */
  readonly reason: string;
  /** The vendor's type and code, or the code of the system, such as ECONNREFUSED. */
  readonly type: string | null;
  readonly code: string | null;
  /** An excerpt of the vendor's message, masked and without text of the request. Null if there is none, or its subject was erased. */
  readonly message: string | null;
}

export interface Attempt {
  /** Position in the order of attempts, from 1. */
  readonly n: number;
  readonly provider: string;
  readonly model: string;
  /** The vendor's HTTP status; null when there was no response. */
  readonly status: number | null;
  readonly outcome: Outcome;
  /** Delay before this attempt (a vendor's `Retry-After`). */
  readonly waitMs: number;
  readonly startedAt: number;
  readonly firstByteMs: number | null;
  readonly durationMs: number;
  readonly tokens: Tokens;
  /** Null when the price is unknown. */
  readonly costNanos: number | null;
  /** Set if a vendor may bill an attempt that it reported no token counts for. Always absent for the attempt that served the call. */
  readonly estimated?: true;
  /** Absent unless the attempt failed. */
  readonly error?: AttemptError;
}

/** What is known about a call before its first attempt: the content of the journal's `opened` record. */
export interface CallMetadata extends CallIdentity, Pick<Caller, 'projectId' | 'keyId' | 'keyPrefix'> {
  readonly route: Route;
  readonly stream: boolean;
  readonly memory: MemoryOptions;
  readonly plan: readonly PlanEntry[];
  /** Bytes of the request, of which four are taken for a token if the process dies. On text routes media counts as text of as many tokens. */
  readonly bodyBytes: number;
  readonly takesNoSlot?: true;
  /** Requested units of a media call, which are charged if the process dies before the call settles. */
  readonly units?: Units;
  /** Admitted without ceilings because the quota store was unavailable. It is counted when it is stored. */
  readonly unmetered?: true;
  /** Trace context (W3C `traceparent`) of a sampled call. */
  readonly trace?: string;
}

/** How a call ended. */
export interface CallResult {
  readonly outcome: Outcome;
  /** HTTP status of the response to the caller. */
  readonly status: number;
  /** Gateway error code; null on success. */
  readonly code: string | null;
  /** `<provider>/<model>` that served the call; null when none did. */
  readonly model: string | null;
  readonly cache: 'hit' | 'miss' | null;
  readonly tokens: Tokens;
  readonly costNanos: number | null;
  /** Absent when the call is charged by tokens alone. */
  readonly units?: CallUnits;
  /** Tokens, and therefore cost, are estimates of the gateway: the vendor's final count is missing. */
  readonly estimated: boolean;
  readonly durationMs: number;
  readonly firstByteMs: number | null;
  readonly attempts: readonly Attempt[];
  /** Usage to deduct from the leases of the process whose journal id is `process`. Absent when no ceiling applied. */
  readonly consumed?: {
    readonly process: string;
    readonly amounts: readonly ConsumedAmount[];
  };
}

/** What a call used of a lease. */
export interface ConsumedAmount {
  /** Row of `limit_counters`. */
  readonly counter: number;
  /** Of the lease. */
  readonly generation: number;
  readonly amount: number;
  /** The overdraft: usage beyond the lease. */
  readonly owed?: number;
}

/** The assistant's part of a response, which memory may read. */
export interface AssistantTurn {
  readonly text: string;
  readonly toolCalls: readonly { readonly name: string; readonly arguments: string }[];
}

/** Text of a call: the caller's body, unchanged, and the assistant's turn when there is one. */
export interface CallContent {
  readonly request: Buffer;
  readonly response: AssistantTurn | null;
  /** Ids of the memory items inserted into the prompt, whose text is not in `request`; absent when there were none. */
  readonly recalled?: readonly string[];
}

/** A settled call, as the journal holds it until the database has stored it. */
export interface SettledCall {
  readonly metadata: CallMetadata;
  readonly result: CallResult;
  /** Null when there is no text to store: the call failed before it reached a vendor, or its text is not recorded. */
  readonly content: CallContent | null;
}

/** Memory options of a call that neither reads nor writes memory. */
export const noMemory: MemoryOptions = { mode: 'off', explicitWrite: false, subject: null };
