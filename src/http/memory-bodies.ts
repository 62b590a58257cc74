/** Parses the bodies of the memory routes. This runs in the low-priority thread if a body is large. */
import { z } from 'zod';
import { formatIssues } from '../core/error-messages.ts';
import { gatewayError } from '../core/errors.ts';
import { isObject } from '../core/json/narrow.ts';
import { parseJsonOrThrow } from '../core/json/parse.ts';
import { type BodySpans, type Member, scanElements, scanJsonText, scanMembers } from '../core/json/spans.ts';
import { JsonSyntaxError } from '../core/json/syntax.ts';
import { parseOrBadRequest, parseWithIssues } from '../core/parse-or-bad-request.ts';
import { findRecallInsertion } from '../dialects/prompt/recall-insertion.ts';
import { correctionBody, itemBody, ratedMemory, ratingBody, rememberBody, wakeUpBody } from '../memory/items/item-schemas.ts';
import { dryRunRequestSchema } from '../memory/recall/dry-run.ts';
import { graphQuerySchema } from '../memory/search/graph.ts';
import { searchRequestSchema } from '../memory/search/search.ts';
import { PlainTextError } from './plain-text-error.ts';

const table = {
  item: itemBody,
  correction: correctionBody,
  rating: ratingBody,
  remember: rememberBody,
  wakeUp: wakeUpBody,
  search: searchRequestSchema,
  recall: dryRunRequestSchema,
  graph: graphQuerySchema,
};

export type MemoryBodyName = keyof typeof table;
type MemoryBodies = { readonly [Name in MemoryBodyName]: z.output<(typeof table)[Name]> };
export type MemoryBody<Name extends MemoryBodyName> = MemoryBodies[Name];

const schemas: { readonly [Name in MemoryBodyName]: z.ZodType<MemoryBodies[Name]> } = table;

/** The routes that accept a missing body. */
const optional: ReadonlySet<MemoryBodyName> = new Set(['remember', 'wakeUp', 'graph']);
/** The routes that answer with a plain-text 422 if a body doesn't match the schema. The others use `bad_request`. */
const plainText: ReadonlySet<MemoryBodyName> = new Set(['search', 'recall', 'graph']);
/** If a key asks for a pinned memory on these routes, it gets `forbidden`, even if other fields are invalid. */
const unpinned: ReadonlySet<MemoryBodyName> = new Set(['item', 'correction']);

/** `body` is null if the request has no body. */
export function parseMemoryBody<Name extends MemoryBodyName>(body: Buffer | null, { name }: { readonly name: Name }): MemoryBody<Name> {
  const schema: z.ZodType<MemoryBody<Name>> = schemas[name];
  if (body === null && !optional.has(name)) throw gatewayError('bad_request', { message: 'a body is required' });
  const value = body === null ? undefined : readFields(body, name);
  if (unpinned.has(name) && isObject(value) && value.pinned === true)
    throw gatewayError('forbidden', { message: 'virtual keys are not allowed to pin memories' });
  return plainText.has(name) ? parseOrMismatch(schema, value) : parseOrBadRequest(schema, value);
}

/** Throws a plain-text 422 that lists all mistakes in the body. */
function parseOrMismatch<Schema extends z.ZodType>(schema: Schema, body: unknown): z.output<Schema> {
  const parsed = parseWithIssues(schema, body);
  if (parsed.success) return parsed.data;
  throw new PlainTextError(422, `the body does not match the schema: ${formatIssues(parsed.issues)}`);
}

/**
 * Checks the syntax of the whole body, but only creates the values that the schema looks at. Otherwise, a body with
 * millions of unknown fields or entries would take ten seconds and a gigabyte of memory. If the body isn't an object,
 * we return null or `true`, because its content makes no difference to the schema. A repeated field that the schema
 * knows counts as a syntax error, because the sender may have meant the other value.
 */
function readFields(body: Buffer, name: MemoryBodyName): unknown {
  const scanned = scan(body, name);
  if (typeof scanned === 'string') return scanned === 'null' ? null : true;
  rejectRepeated(scanned);
  const fields = [...scanned.members.values()].map(({ key, kind, value }) => [
    key,
    name === 'recall' && key === 'messages' && kind === 'array' ? readUserMessage(body, scanned) : readField(body, { kind, value }),
  ]);
  return Object.fromEntries(fields);
}

type Value = Pick<Member, 'kind' | 'value'>;

/** This is one entry more than any schema allows, so the schema rejects lists that are too long. */
const maxEntries = 101;

/** We don't read the members of an object, because the schemas reject all objects. */
function readField(body: Buffer, { kind, value }: Value): unknown {
  if (kind === 'object') return {};
  if (kind !== 'array') return parseJsonOrThrow(body.toString('utf8', value.start, value.end));
  const entries: unknown[] = [];
  for (const entry of scanElements(body, value.start)) {
    entries.push(readEntry(body, entry));
    if (entries.length === maxEntries) break;
  }
  return entries;
}

/** The entries of a list are either simple values or rated memories. Other lists and objects are left empty. */
function readEntry(body: Buffer, { kind, value }: Value): unknown {
  if (kind === 'array') return [];
  if (kind !== 'object') return readField(body, { kind, value });
  const spans = scanMembers(body, value.start, ratedMemoryFields);
  rejectRepeated(spans);
  return Object.fromEntries(
    [...spans.members.values()].map((member) => [member.key, member.kind === 'array' ? [] : readField(body, member)]),
  );
}

function rejectRepeated({ repeated }: Pick<BodySpans, 'repeated'>): void {
  const [first] = repeated;
  if (first !== undefined) throw new PlainTextError(400, `${first}: duplicate key`);
}

function scan(body: Buffer, name: MemoryBodyName): ReturnType<typeof scanJsonText> {
  try {
    return scanJsonText(body, fieldsOf(name));
  } catch (error) {
    if (error instanceof JsonSyntaxError) throw new PlainTextError(400, 'the body is not valid JSON');
    throw error;
  }
}

/**
 * Recall only looks at the text of the last user message, so we find that in the bytes and leave out all other
 * messages.
 */
function readUserMessage(body: Buffer, spans: BodySpans): unknown[] {
  const text = findRecallInsertion('chat', body, spans)?.userText;
  return text === undefined ? [] : [{ role: 'user', content: text }];
}

const ratedMemoryFields: ReadonlySet<string> = new Set(listFields(ratedMemory));

const knownFields = new Map<MemoryBodyName, ReadonlySet<string>>();

function fieldsOf(name: MemoryBodyName): ReadonlySet<string> {
  const fields = knownFields.get(name) ?? new Set(listFields(schemas[name]));
  knownFields.set(name, fields);
  return fields;
}

/** Returns the fields of an object schema, which may have transformations around it. */
function listFields(schema: unknown): string[] {
  if (schema instanceof z.ZodObject) return Object.keys(schema.shape);
  return schema instanceof z.ZodPipe ? [...listFields(schema.in), ...listFields(schema.out)] : [];
}
