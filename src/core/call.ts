/**
 * The glossary. Four values travel through the gateway, each made once and never changed:
 *
 * - **Call**: one request of an application: who asks, what for, until when.
 * - **Candidate**: a model at a provider that may answer the call. A call has candidates, in order: its **plan**.
 * - **Attempt**: one try of one candidate.
 * - **Answer**: what came back, plain or streamed, and how it ended.
 *
 * Further words, one per thing: a **provider** is a configured row of a model **vendor**; a **dialect** is the form a caller or a
 * vendor speaks; a **tier** is a named chain of models; a **source** is the application that calls; a **subject** is the end user
 * whom a call is about; a **conversation** (in routes: episode) is a run of calls; an attempt or a call **settles** when its
 * outcome, tokens and cost are known for good.
 *
 * What a call is charged by is in `charges.ts`. Nothing here has behaviour. Units stand at the end of names: `…Ms` milliseconds,
 * `…Nanos` nano-dollars (1e-9 USD), `…Bytes`.
 * Times called `…At` are milliseconds since 1970 in memory and RFC 3339 on the wire.
 */

import type { BodySpans } from './json/spans.ts';
import type { CallUnits, Price, Tokens, UnitPrices, Units } from './pricing.ts';

/** How a caller or a vendor speaks: OpenAI's chat completions or Anthropic's messages. */
export type Dialect = 'chat' | 'messages';

/** The inference routes: the first two may be answered by vendors of either dialect, the others pass through to the same path. */
export type TextRoute = Dialect | 'embeddings' | 'moderations' | 'rerank' | 'responses';

/** The routes whose calls one provider serves, without cache, failover and deadline. */
export type MediaRoute = 'images' | 'speech' | 'video';

/** The routes as they are recorded. */
export type Route = TextRoute | MediaRoute;

/** Who calls: what a valid virtual key says of its owner. The secret itself is not here. */
export interface Caller {
  readonly keyId: string;
  readonly keyPrefix: string;
  /** The key under whose id its ceilings are counted: itself, or the first of those that it was rotated from. */
  readonly quotaKeyId: string;
  readonly projectId: string;
  /** Models (ids or tier names) the key may use; null means all. */
  readonly models: readonly string[] | null;
  readonly expiresAt: number | null;
}

/** In the place of a key for calls that the gateway makes by itself, in the background: the project's limits hold, a key's do not. */
export const internalKeyId = '00000000-0000-0000-0000-000000000000';

/** What the caller wants of the project memory for this call (specification 4.2). */
export interface MemoryOptions {
  readonly mode: 'write' | 'recall' | 'off';
  /** The header `x-gateway-memory: write` was sent: makes a conversation of one call learnable. */
  readonly explicitWrite: boolean;
  /** End user the call is about, from the header or the body; null for none. Private: never logged. */
  readonly subject: string | null;
}

/** What the caller allows the response cache (`cache-control`, shapes 17). */
export interface CacheDirectives {
  readonly reads: boolean;
  readonly writes: boolean;
  /** Only an answer that is younger than this; absent: any that the project keeps. */
  readonly maxAgeMs?: number;
}

/** Correlation headers (specification 4.2): stored with the usage record, without effect on routing or ceilings. */
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

export interface Call {
  /** UUIDv7; its time part is `startedAt`. */
  readonly id: string;
  readonly startedAt: number;
  readonly route: TextRoute;
  readonly caller: Caller;
  readonly projectSlug: string;
  /** Application; the project slug when the header is absent. */
  readonly source: string;
  /** The caller sent `x-gateway-source` (specification 4.8 rule 3 depends on it). */
  readonly sourceGiven: boolean;
  /** Model as the caller wrote it; `auto` when absent. */
  readonly modelAsked: string;
  readonly stream: boolean;
  readonly body: Buffer;
  readonly spans: BodySpans;
  /** Output tokens the caller allows; null when it set no bound. */
  readonly maxOutputTokens: number | null;
  readonly memory: MemoryOptions;
  readonly cache: CacheDirectives;
  readonly correlation: Correlation;
  /** Instant at which the whole chain ends (`x-gateway-timeout-ms`), null for none. */
  readonly deadlineAt: number | null;
  /** Caller's headers that vendors may see (decisions 3), lower-case names. */
  readonly forwardedHeaders: Readonly<Record<string, string>>;
  /**
   * The gateway's own question about texts that stand elsewhere (a caller's call, stored conversations): recorded and paid for, but its text is
   * not stored a second time, where an erasure of what it was made of would not find it.
   */
  readonly isInternal?: true;
}

/** One request of a media route, as it is recorded; what it asks for in particular is its route's own. */
export interface MediaCall {
  /** UUIDv7; its time part is `startedAt`. */
  readonly id: string;
  readonly startedAt: number;
  readonly route: MediaRoute;
  readonly caller: Caller;
  /** Application; the project slug when the header is absent. */
  readonly source: string;
  readonly sourceGiven: boolean;
  /** Model as the caller wrote it. */
  readonly modelAsked: string;
  readonly bodyBytes: number;
  readonly correlation: Correlation;
}

/** The one model that may answer a media call. */
export interface MediaCandidate {
  /** `<provider>/<model>`. */
  readonly id: string;
  readonly provider: string;
  /** The vendor's own model id, or its voice. */
  readonly model: string;
  /** Of tokens; it counts where no unit of the call has a price. */
  readonly price: Price | null;
  readonly unitPrices: UnitPrices;
}

/** What a model takes, as far as a call's translation depends on it. */
export interface ModelTraits {
  /** Of the messages dialect: it takes `output_config.format` and strict tools. Default: not. */
  readonly supportsSchema?: boolean;
  /** Of the messages dialect: how it is told to think. `none`: not on request. Default `budget`. */
  readonly thinking?: 'budget' | 'adaptive' | 'none';
  /** Of the chat dialect: it takes `reasoning_effort`. Default: it does. */
  readonly reasons?: boolean;
}

export interface Candidate {
  /** `<provider>/<model>`. */
  readonly id: string;
  readonly provider: string;
  /** The vendor's own model id. */
  readonly model: string;
  /** What the vendor speaks. */
  readonly dialect: Dialect;
  readonly price: Price | null;
  readonly maxOutputTokens: number | null;
  readonly traits?: ModelTraits;
}

/** One line of a plan as it is recorded: a candidate, or why a model of the chain is not one. */
export interface PlanEntry {
  readonly model: string;
  readonly skipped: string | null;
  /** Not of the chain: it stands in by catalog fill. */
  readonly filled?: true;
}

/** How an attempt or a call ended (shapes 21). */
export type Outcome = 'ok' | 'refused' | 'failed' | 'interrupted' | 'client_left' | 'deadline' | 'unknown';

export interface Attempt {
  /** Position in the order of attempts, from 1. */
  readonly n: number;
  readonly provider: string;
  readonly model: string;
  /** Vendor's HTTP status; null when none came. */
  readonly status: number | null;
  readonly outcome: Outcome;
  /** Pause before this attempt (a vendor's `Retry-After`). */
  readonly waitMs: number;
  readonly startedAt: number;
  readonly firstByteMs: number | null;
  readonly durationMs: number;
  readonly tokens: Tokens;
  /** Null: the price is unknown. */
  readonly costNanos: number | null;
}

/** What is known of a call before its first attempt; the journal's `opened` record holds exactly this. */
export interface CallMetadata {
  readonly id: string;
  readonly startedAt: number;
  readonly projectId: string;
  readonly keyId: string;
  readonly keyPrefix: string;
  readonly source: string;
  readonly sourceGiven: boolean;
  readonly route: Route;
  readonly modelAsked: string;
  readonly stream: boolean;
  readonly memory: MemoryOptions;
  readonly correlation: Correlation;
  readonly plan: readonly PlanEntry[];
  readonly bodyBytes: number;
  /** What a media call asks for: all there is to charge where its process dies before it settles. */
  readonly units?: Units;
  /** The store of the ceilings was down: it was let through without them, and is counted when it is stored (decisions 6). */
  readonly unmetered?: true;
}

/** What a call took of the slices of ceilings that its process holds. */
export interface LeaseDebits {
  /** The process: its journal's id. */
  readonly process: string;
  /** By row of `limit_counters` and the lease's generation; `owed`: what was spent beyond all that the lease had. */
  readonly amounts: readonly { readonly counter: number; readonly generation: number; readonly amount: number; readonly owed?: number }[];
}

/** How a call ended. */
export interface CallResult {
  readonly outcome: Outcome;
  /** HTTP status sent to the caller. */
  readonly status: number;
  /** Gateway error code, null on success. */
  readonly code: string | null;
  /** `<provider>/<model>` that answered, null when none did. */
  readonly model: string | null;
  readonly cache: 'hit' | 'miss' | null;
  readonly tokens: Tokens;
  readonly costNanos: number | null;
  /** Absent: counted by tokens alone. */
  readonly units?: CallUnits;
  /** Tokens (and so cost) are the gateway's estimate: the vendor's final count never came. */
  readonly estimated: boolean;
  readonly durationMs: number;
  readonly firstByteMs: number | null;
  readonly attempts: readonly Attempt[];
  /** Absent: no ceiling applied. */
  readonly consumed?: LeaseDebits;
}

/** The assistant's part of an answer: what memory may read of it. */
export interface AssistantTurn {
  readonly text: string;
  readonly toolCalls: readonly { readonly name: string; readonly arguments: string }[];
}

/** Text of a call for the project's store: the caller's body as it was sent, and the assistant's turn when there is one. */
export interface CallContent {
  readonly request: Buffer;
  readonly answer: AssistantTurn | null;
  /** Ids of the memory items that were put into the prompt, whose text is not in `request`; absent: none were. */
  readonly recalled?: readonly string[];
}

/** A finished call on its way from the journal to the database. */
export interface SettledCall {
  readonly facts: CallMetadata;
  readonly result: CallResult;
  /** Null: nothing to store (the call failed before a vendor was asked, or its text could not be kept). */
  readonly content: CallContent | null;
}
