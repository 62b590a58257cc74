/**
 * Encodes journal records as JSON, and validates them when they're read. A record can come from a different version of
 * the gateway, so we validate it like any external data. Records that aren't valid are `unreadable` and end up in the
 * quarantine.
 */
import { z } from 'zod';
import { type Attempt, type CallContent, type CallMetadata, type CallResult, outcomes, routes, type SettledCall } from '../core/call.ts';
import { parseJson } from '../core/json/parse.ts';
import { encodeFrame, type Frame } from './frame.ts';
import type { SharedBody } from './shared-bytes.ts';

/** The record of an attempt. It's written just before the attempt's request is sent. */
export interface AttemptStart {
  readonly n: number;
  readonly provider: string;
  readonly model: string;
  readonly member?: string;
  readonly startedAt: number;
}

/**
 * A record of the journal. If you already have its metadata as JSON, pass that as `facts`, so that we don't have to
 * encode it again.
 */
export type JournalRecord =
  | {
      readonly kind: 'opened';
      readonly metadata: CallMetadata;
      readonly attempts: readonly AttemptStart[];
      readonly facts?: string | undefined;
    }
  | { readonly kind: 'attempt'; readonly callId: string; readonly attempt: AttemptStart }
  | {
      readonly kind: 'settled';
      readonly call: SettledCall;
      readonly facts?: string | undefined;
      /** True if the call's text is missing, because the record refers to bytes that we couldn't find. */
      readonly isIncomplete?: boolean;
    }
  /** An empty record that we write to find out if the disk accepts writes again. */
  | { readonly kind: 'probe' };

export type DecodedRecord = JournalRecord | { readonly kind: 'unreadable'; readonly callId: string | null };

export function encodeRecord(record: JournalRecord): Buffer[] {
  return encodeFrame(formatRecord(record).join(''), attachmentOf(record));
}

/**
 * Returns the JSON of a record, in parts. For compatibility, the metadata is named `facts` and the response `answer`.
 * If the record has a shared body, its `content` is null and the actual content is in `shared`. Releases that don't
 * know shared bodies then store the call with its tokens and cost, but without its text.
 */
export function formatRecord(record: JournalRecord, body: SharedBody | null = null): readonly string[] {
  if (record.kind === 'opened') {
    const facts = record.facts ?? JSON.stringify(record.metadata);
    return ['{"kind":"opened","facts":', facts, `,"attempts":${JSON.stringify(record.attempts)}}`];
  }
  if (record.kind !== 'settled') return [JSON.stringify(record)];
  const { metadata, result, content } = record.call;
  const facts = record.facts ?? JSON.stringify(metadata);
  const stored = content === null ? null : { answer: content.response, recalled: content.recalled, recalledTokens: content.recalledTokens };
  const shown = body === null ? { result, content: stored } : { result, content: null, shared: { content: stored, pieces: body.pieces } };
  return ['{"kind":"settled","facts":', facts, ',', JSON.stringify(shown).slice(1)];
}

export function attachmentOf(record: JournalRecord): Buffer | null {
  return record.kind === 'settled' && record.call.content !== null ? record.call.content.request : null;
}

export function decodeRecord({ meta, attachment }: Frame): DecodedRecord {
  const json = parseJson(meta.toString('utf8'));
  const parsed = recordSchema.safeParse(json);
  if (!parsed.success) return { kind: 'unreadable', callId: callIdSchema.safeParse(json).data?.facts.id ?? null };
  const record = parsed.data;
  if (record.kind === 'opened') return { kind: 'opened', metadata: record.facts, attempts: record.attempts };
  if (record.kind !== 'settled') return record;
  const { facts: metadata, result, content: stored, shared } = record;
  const content = stored && toContent(attachment, stored);
  return { kind: 'settled', call: { metadata, result, content }, ...(shared !== undefined && { isIncomplete: true }) };
}

function toContent(request: Buffer, { answer, recalled, recalledTokens }: z.output<typeof contentSchema>): CallContent {
  return {
    ...{ request, response: answer },
    ...(recalled && { recalled }),
    ...(recalledTokens !== undefined && { recalledTokens }),
  };
}

const count = z.number();
const textOrNull = z.string().nullable();
const countOrNull = z.number().nullable();

const units = {
  images: count.exactOptional(),
  characters: count.exactOptional(),
  seconds: count.exactOptional(),
  imageTokens: count.exactOptional(),
};

const metadataSchema: z.ZodType<CallMetadata> = z.object({
  id: z.string(),
  startedAt: z.number(),
  projectId: z.string(),
  keyId: z.string(),
  keyPrefix: z.string(),
  source: z.string(),
  sourceGiven: z.boolean(),
  route: z.enum(routes),
  modelAsked: z.string(),
  stream: z.boolean(),
  memory: z.object({
    mode: z.enum(['write', 'recall', 'off']),
    explicitWrite: z.boolean(),
    subject: textOrNull,
    isSubjectInvalid: z.literal(true).exactOptional(),
    isRecorded: z.boolean().exactOptional(),
  }),
  correlation: z.object({
    taskId: textOrNull,
    turnId: textOrNull,
    agentId: textOrNull,
    triggerKind: textOrNull,
    triggerDetail: textOrNull,
    iteration: countOrNull,
    distilSaved: countOrNull,
  }),
  plan: z.array(
    z.object({
      model: z.string(),
      skipped: textOrNull,
      lacks: z.array(z.string()).exactOptional(),
      canary: z.string().exactOptional(),
      control: z.string().exactOptional(),
      filled: z.literal(true).exactOptional(),
    }),
  ),
  bodyBytes: z.number(),
  takesNoSlot: z.literal(true).exactOptional(),
  trace: z.string().exactOptional(),
  units: z.object(units).exactOptional(),
  unmetered: z.literal(true).exactOptional(),
});

const attemptStart = { n: z.number(), provider: z.string(), model: z.string(), member: z.string().exactOptional(), startedAt: z.number() };
const attemptStartSchema: z.ZodType<AttemptStart> = z.object(attemptStart);

const tokens = z.object({ input: count, cachedInput: count, cacheWrite: count, cacheWrite1h: count, output: count });
const outcome = z.enum(outcomes);

const attemptSchema: z.ZodType<Attempt> = z.object({
  ...attemptStart,
  status: countOrNull,
  outcome,
  requestId: z.string().exactOptional(),
  waitMs: z.number(),
  firstByteMs: countOrNull,
  durationMs: z.number(),
  tokens,
  costNanos: countOrNull,
  estimated: z.literal(true).exactOptional(),
  error: z.object({ reason: z.string(), type: textOrNull, code: textOrNull, message: textOrNull }).exactOptional(),
});

/** Records of older versions have no generation, so use 0. */
const consumedSchema = z.object({
  counter: z.number(),
  generation: z.number().default(0),
  amount: z.number(),
  owed: count.exactOptional(),
});

const resultSchema: z.ZodType<CallResult> = z.object({
  outcome,
  status: z.number(),
  code: textOrNull,
  model: textOrNull,
  cache: z.enum(['hit', 'miss']).nullable(),
  tokens,
  costNanos: countOrNull,
  units: z
    .object({
      ...units,
      searches: count.exactOptional(),
      serviceTier: z.string().exactOptional(),
      reportedCostNanos: count.exactOptional(),
      toolUses: z.record(z.string(), count).exactOptional(),
    })
    .exactOptional(),
  estimated: z.boolean(),
  durationMs: z.number(),
  firstByteMs: countOrNull,
  attempts: z.array(attemptSchema),
  consumed: z.object({ process: z.string(), amounts: z.array(consumedSchema) }).exactOptional(),
});

const responseSchema = z.object({ text: z.string(), toolCalls: z.array(z.object({ name: z.string(), arguments: z.string() })) });

const contentSchema = z.object({
  answer: responseSchema.nullable(),
  recalled: z.array(z.uuid()).exactOptional(),
  recalledTokens: count.exactOptional(),
});

const recordSchema = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('opened'), facts: metadataSchema, attempts: z.array(attemptStartSchema) }),
  z.object({ kind: z.literal('attempt'), callId: z.string(), attempt: attemptStartSchema }),
  z.object({
    kind: z.literal('settled'),
    facts: metadataSchema,
    result: resultSchema,
    content: contentSchema.nullable(),
    /** Set if `shared-bytes.ts` couldn't expand the record. */
    shared: z.unknown().optional(),
  }),
  z.object({ kind: z.literal('probe') }),
]);

const callIdSchema = z.object({ facts: z.object({ id: z.string() }) });
