/**
 * Stores the missing parts of chains and the texts of extras. If a part is stored, all parts before it and their texts
 * are stored too, because we insert a chain in one transaction and `released-parts.ts` deletes from the ends. Both hold
 * the project's conversations lock. This lets us find out with a few lookups what's new in a history of hundreds of
 * messages.
 */
import { LRUCache } from 'lru-cache';
import { toArrayLiteral, toArrayParameter } from '../../db/array-literal.ts';
import type { Queries } from '../../db/database.ts';
import { type Column, selectRows, toBatches } from '../../db/row-batches.ts';
import { type ChainPart, type ExtraPart, hashText, type Sha256 } from './chain.ts';
import { type PackedText, packText } from './packed-text.ts';

/** The chains of a call. The call refers to the end of each. */
export interface CallChains {
  readonly projectId: string;
  readonly startedAt: number;
  /** Tools and leading system prompts. */
  readonly context: readonly ExtraPart[];
  /** Everything else that isn't a message, such as tool results, thinking and images. */
  readonly extras: readonly ExtraPart[];
  /** The messages of the request, followed by the response if there is one. */
  readonly parts: readonly ChainPart[];
  readonly promptLength: number;
}

type Part = ChainPart | ExtraPart;

/**
 * One chain of a call. We send the parts from index `uncheckedFrom` on without looking them up, because they're new in
 * most calls.
 */
interface Chain {
  readonly projectId: string;
  readonly createdAt: number;
  readonly parts: readonly Part[];
  readonly uncheckedFrom: number;
}

/** We look up longer messages before we send them, because sending a document again costs more than the lookup. */
const maxUncheckedLength = 4_096;
/** The most messages per prompt that we send without a lookup. A history may consist of user messages only. */
const maxUnchecked = 4;

/**
 * Keys of parts that we've stored or found. They're only hints where to look first, because another process may have
 * deleted the parts.
 */
const hints = new LRUCache<string, true>({ max: 50_000 });

export async function storeParts(tx: Queries, calls: readonly CallChains[]): Promise<void> {
  const chains = calls.flatMap(toChains).filter(({ parts }) => parts.length > 0);
  const hinted = chains.map(findHint);
  const confirmed = await findParts(
    tx,
    chains,
    hinted.map((at) => (at < 0 ? [] : [at])),
  );
  /** The number of stored parts of each chain, or null if we have to search for it. */
  const known = chains.map((chain, index) => {
    const at = hinted[index] ?? -1;
    return at >= 0 && confirmed.has(keyOf(chain, at)) ? at + 1 : null;
  });
  const searched = await searchStored(
    tx,
    chains.filter((_, index) => known[index] === null),
  );
  const added = new Map<string, NewPart>();
  for (const [index, chain] of chains.entries()) {
    const { from, stored } = searched.get(chain) ?? { from: known[index] ?? 0, stored: new Set() };
    for (let at = from; at < chain.parts.length; at += 1) {
      const key = keyOf(chain, at);
      const part = chain.parts[at];
      if (part && !stored.has(key) && !added.has(key)) added.set(key, { ...chain, part });
    }
    if (chain.uncheckedFrom > 0) hints.set(keyOf(chain, chain.parts.length - 1), true);
  }
  await insertParts(tx, [...added.values()]);
}

/**
 * Returns the index of the last part we've seen in the database, not counting unchecked parts. Returns -1 if there is
 * none.
 */
function findHint(chain: Chain): number {
  let at = chain.uncheckedFrom - 1;
  while (at >= 0 && !hints.has(keyOf(chain, at))) at -= 1;
  return at;
}

interface StoredBeginning {
  /** All parts before this index are stored. */
  readonly from: number;
  /** The keys of further stored parts. */
  readonly stored: ReadonlySet<string>;
}

/**
 * Looks up the likeliest ends of the stored prefix, and then the parts between the last one it found and the next one
 * it didn't.
 */
async function searchStored(tx: Queries, chains: readonly Chain[]): Promise<ReadonlyMap<Chain, StoredBeginning>> {
  const probes = chains.map(toProbes);
  const found = await findParts(tx, chains, probes);
  const gaps = chains.map((chain, index) => {
    const own = probes[index] ?? [];
    const from = Math.max(-1, ...own.filter((at) => found.has(keyOf(chain, at)))) + 1;
    const to = Math.min(chain.uncheckedFrom, ...own.filter((at) => at >= from));
    return { from, positions: Array.from({ length: Math.max(0, to - from) }, (_, step) => from + step) };
  });
  const stored = await findParts(
    tx,
    chains,
    gaps.map(({ positions }) => positions),
  );
  return new Map(chains.map((chain, index) => [chain, { from: gaps[index]?.from ?? 0, stored }]));
}

function toChains({ projectId, startedAt, context, extras, parts, promptLength }: CallChains): Chain[] {
  const chain = { projectId, createdAt: startedAt };
  return [
    { ...chain, parts: context, uncheckedFrom: context.length },
    { ...chain, parts: extras, uncheckedFrom: extras.length },
    { ...chain, parts, uncheckedFrom: findUnchecked(parts, promptLength) },
  ];
}

/**
 * Returns the index of the first message after the last response in the history. It's higher if these messages are long
 * or there are many of them.
 */
function findUnchecked(parts: readonly ChainPart[], promptLength: number): number {
  let uncheckedFrom = promptLength;
  while (uncheckedFrom > 0 && uncheckedFrom > promptLength - maxUnchecked && parts[uncheckedFrom - 1]?.role !== 'assistant')
    uncheckedFrom -= 1;
  for (let at = parts.length - 1; at >= uncheckedFrom; at -= 1) if (lengthOf(parts[at]) > maxUncheckedLength) return at + 1;
  return uncheckedFrom;
}

/**
 * Returns the likeliest ends of the stored prefix: the last part, and then parts at exponentially growing distances.
 */
function toProbes({ uncheckedFrom }: Chain): number[] {
  const probes: number[] = [];
  for (let step = 1, at = uncheckedFrom - 1; at >= 0; at -= step, step *= 2) probes.push(at);
  return probes;
}

interface NewPart {
  readonly projectId: string;
  readonly createdAt: number;
  readonly part: Part;
}

function keyOf({ projectId, parts }: Chain, at: number): string {
  return `${projectId}${parts[at]?.hash}`;
}

/** Looks up the parts at the given positions of each chain and returns the keys of those that are stored. */
async function findParts(tx: Queries, chains: readonly Chain[], positions: readonly (readonly number[])[]): Promise<ReadonlySet<string>> {
  const requested = new Map<string, { readonly projectId: string; readonly hash: Sha256 }>();
  for (const [index, chain] of chains.entries()) {
    for (const at of positions[index] ?? []) {
      const part = chain.parts[at];
      if (part) requested.set(keyOf(chain, at), { projectId: chain.projectId, hash: part.hash });
    }
  }
  const found = new Set<string>();
  for (const slice of toBatches([...requested])) {
    const rows = await tx.query<{ position: number }>(
      `select requested.position::integer
         from unnest($1::bytea[], $2::uuid[]) with ordinality as requested (hash, project_id, position)
         join parts using (project_id, hash)`,
      [
        toArrayParameter(
          'bytea',
          slice.map(([, { hash }]) => hash),
        ),
        toArrayLiteral(slice, ([, { projectId }]) => projectId),
      ],
    );
    for (const { position } of rows) {
      const key = slice[position - 1]?.[0];
      if (key !== undefined) found.add(key);
    }
  }
  return found;
}

const partColumns: readonly Column<NewPart>[] = [
  ['hash', 'bytea', ({ part }) => part.hash],
  ['project_id', 'uuid', ({ projectId }) => projectId],
  ['parent_hash', 'bytea', ({ part }) => part.parentHash],
  ['role', 'text', ({ part }) => part.role],
  ['text', 'text', ({ part }) => (isExtra(part) ? '' : part.message.text)],
  ['details', 'jsonb', ({ part }) => detailsOf(part)],
  ['text_hash', 'bytea', ({ part }) => (isExtra(part) ? part.textHash : null)],
  ['created_at', 'float8', ({ createdAt }) => createdAt],
];

async function insertParts(tx: Queries, parts: readonly NewPart[]): Promise<void> {
  await insertExtraTexts(tx, parts);
  for (const slice of toBatches(parts, ({ part }) => (isExtra(part) ? 0 : lengthOf(part)))) {
    const rows = selectRows(partColumns, slice);
    await tx.query(
      `insert into parts (project_id, hash, parent_hash, role, content, text_hash, created_at)
       select project_id, hash, parent_hash, role,
              case when role in ('user', 'assistant') then jsonb_build_object('text', text, 'tool_calls', details) else details end,
              text_hash, to_timestamp(created_at / 1000)
         from (${rows.text}) as new
       on conflict (project_id, hash) do nothing`,
      rows.values,
    );
  }
}

interface ExtraText extends PackedText {
  readonly projectId: string;
  readonly textHash: Sha256;
}

const textColumns: readonly Column<ExtraText>[] = [
  ['hash', 'bytea', ({ textHash }) => textHash],
  ['project_id', 'uuid', ({ projectId }) => projectId],
  ['content', 'bytea', ({ content }) => content],
  ['is_compressed', 'boolean', ({ isCompressed }) => isCompressed],
];

/** Deduplicates the texts, because several chains may contain the same one. */
async function insertExtraTexts(tx: Queries, parts: readonly NewPart[]): Promise<void> {
  const texts = new Map<string, ExtraText>();
  // If the text was read again on demand, make sure that it's the one whose hash we cached.
  for (const { projectId, part } of parts)
    if (isExtra(part) && part.textHash !== null && hashText(part.text) === part.textHash)
      texts.set(`${projectId}${part.textHash}`, { projectId, textHash: part.textHash, ...packText(part.text) });
  for (const slice of toBatches([...texts.values()], ({ content }) => content.length)) {
    const rows = selectRows(textColumns, slice);
    await tx.query(
      `insert into prompt_texts (project_id, hash, content, is_compressed)
       select project_id, hash, content, is_compressed from (${rows.text}) as new
       on conflict (project_id, hash) do nothing`,
      rows.values,
    );
  }
}

function isExtra(part: Part): part is ExtraPart {
  return 'position' in part;
}

function detailsOf(part: Part): string {
  if (isExtra(part)) return JSON.stringify({ position: part.position, ...part.details });
  return part.message.toolCalls.length === 0 ? '[]' : JSON.stringify(part.message.toolCalls);
}

function lengthOf(part: ChainPart | undefined): number {
  if (!part) return 0;
  return part.length;
}
