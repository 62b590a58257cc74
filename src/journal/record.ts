/**
 * Encodes and validates the JSON of journal records. A record may come from another version of the gateway, so we
 * validate it like any external data. Records that don't validate are `unreadable` and go to the quarantine.
 */
import { z } from 'zod';
import { type Attempt, type CallMetadata, type CallResult, outcomes, routes, type SettledCall } from '../core/call.ts';
import { parseJson } from '../core/json/narrow.ts';
import { encodeFrame, type Frame } from './frame.ts';

/** An attempt whose request hasn't been sent yet. */
export interface AttemptStart {
  readonly n: number;
  readonly provider: string;
  readonly model: string;
  readonly member?: string;
  readonly startedAt: number;
}

/** `facts` is the JSON of the metadata, if the caller has it already. */
export type JournalRecord =
  | {
      readonly kind: 'opened';
      readonly metadata: CallMetadata;
      readonly attempts: readonly AttemptStart[];
      readonly facts?: string | undefined;
    }
  | { readonly kind: 'attempt'; readonly callId: string; readonly attempt: AttemptStart }
  | { readonly kind: 'settled'; readonly call: SettledCall; readonly facts?: string | undefined }
  /** Written to test whether the journal is writable. */
  | { readonly kind: 'probe' };

export type DecodedRecord = JournalRecord | { readonly kind: 'unreadable'; readonly callId: string | null };

export function encodeRecord(record: JournalRecord): Buffer[] {
  return encodeFrame(formatRecord(record).join(''), attachmentOf(record));
}

/**
 * Formats the JSON of a record in parts. The stored names are `facts` for the metadata and `answer` for the response.
 */
export function formatRecord(record: JournalRecord): readonly string[] {
  if (record.kind === 'opened') {
    const facts = record.facts ?? JSON.stringify(record.metadata);
    return ['{"kind":"opened","facts":', facts, `,"attempts":${JSON.stringify(record.attempts)}}`];
  }
  if (record.kind !== 'settled') return [JSON.stringify(record)];
  const { metadata, result, content } = record.call;
  const facts = record.facts ?? JSON.stringify(metadata);
  const stored = content === null ? null : { answer: content.response, recalled: content.recalled };
  return ['{"kind":"settled","facts":', facts, ',', JSON.stringify({ result, content: stored }).slice(1)];
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
  const { facts: metadata, result, content: stored } = record;
  const content = stored && { request: attachment, response: stored.answer, ...(stored.recalled && { recalled: stored.recalled }) };
  return { kind: 'settled', call: { metadata, result, content } };
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

/** Records from before leases had generations belong to generation 0. */
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

const recordSchema = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('opened'), facts: metadataSchema, attempts: z.array(attemptStartSchema) }),
  z.object({ kind: z.literal('attempt'), callId: z.string(), attempt: attemptStartSchema }),
  z.object({
    kind: z.literal('settled'),
    facts: metadataSchema,
    result: resultSchema,
    content: z.object({ answer: responseSchema.nullable(), recalled: z.array(z.uuid()).exactOptional() }).nullable(),
  }),
  z.object({ kind: z.literal('probe') }),
]);

const callIdSchema = z.object({ facts: z.object({ id: z.string() }) });
