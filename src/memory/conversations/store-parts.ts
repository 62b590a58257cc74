/**
 * Stores the parts of chains that aren't in the database yet, together with the text of extras (see `chain.ts`).
 *
 * If a part is stored, all parts before it are stored as well, including their texts. That's because we insert a whole
 * chain in one transaction, and `released-parts.ts` deletes chains from their ends. Both hold the project's
 * conversations lock. So even in a history of hundreds of messages, a few lookups are enough to find out which messages
 * are new. Extras may be packed (`new-parts.ts`), so we look up each of them.
 */
import { createLruCache } from '../../core/lru-cache.ts';
import type { Queries } from '../../db/database.ts';
import { type Column, querySelected } from '../../db/row-batches.ts';
import type { ChainPart, ExtraPart } from './chain.ts';
import { findStored, type StoredKey } from './find-stored.ts';
import { type Chain, isExtra, keyOf, type NewPart, NewParts, type Part } from './new-parts.ts';
import { type NewExtra, storeExtraTexts } from './store-extra-texts.ts';

/**
 * A call's text as chains of parts. We only have to store the hash of each chain's last part, from which we can find
 * all the others.
 */
export interface CallChains {
  readonly projectId: string;
  readonly startedAt: number;
  readonly context: readonly ExtraPart[];
  /** Everything else that isn't a message, such as tool results, thinking and images. */
  readonly extras: readonly ExtraPart[];
  /** The request's messages and, if there is one, the response. */
  readonly parts: readonly ChainPart[];
  readonly promptLength: number;
}

/**
 * If a message has more characters than this, we always look it up first. That's cheaper than sending a whole document
 * to the database again.
 */
const maxUncheckedLength = 4_096;
/**
 * Limits how many messages at the end of a prompt we insert without looking them up first. Without a limit, that could
 * be the whole history, because it may consist of nothing but user messages.
 */
const maxUnchecked = 4;

/**
 * Keys of parts that we've recently stored or found. This only tells us where to look first, because another process
 * may have deleted the parts in the meantime.
 */
const hints = createLruCache<true>(50_000);

export async function storeParts(tx: Queries, calls: readonly CallChains[]): Promise<void> {
  const added = new NewParts();
  const chains: Chain[] = [];
  for (const call of calls) {
    for (const chain of toChains(call)) {
      if (chain.uncheckedFrom === 0) added.addFrom(0, chain);
      else chains.push(chain);
    }
  }
  if (chains.length > 0) await addMissing(tx, chains, added);
  await insertParts(tx, added.list());
}

async function addMissing(tx: Queries, chains: readonly Chain[], added: NewParts): Promise<void> {
  const hinted = chains.map(findHint);
  const likely = chains.map(({ isPacked, uncheckedFrom }, index) => {
    const at = hinted[index] ?? -1;
    return at < 0 ? [] : range(at, isPacked ? uncheckedFrom : at + 1);
  });
  const confirmed = await findParts(tx, chains, likely);
  /**
   * The number of parts in each chain that are already stored. We only know this if there's a hint and the database has
   * confirmed it. If it's null, we have to search.
   */
  const known = chains.map((chain, index) => {
    const at = likely[index]?.findLast((position) => confirmed.has(keyOf(chain, position)));
    return at === undefined ? null : at + 1;
  });
  const searched = await searchStored(
    tx,
    chains.filter((_, index) => known[index] === null),
  );
  for (const [index, chain] of chains.entries()) {
    const { from, stored } = searched.get(chain) ?? { from: known[index] ?? 0 };
    added.addFrom(from, chain, stored);
    hints.set(keyOf(chain, chain.parts.length - 1), true);
  }
}

function findHint(chain: Chain): number {
  let at = chain.uncheckedFrom - 1;
  while (at >= 0 && !hints.has(keyOf(chain, at))) at -= 1;
  return at;
}

interface StoredBeginning {
  /** The first `from` parts of the chain are stored. */
  readonly from: number;
  /** The keys of stored parts from index `from` on. */
  readonly stored?: ReadonlySet<string>;
}

/**
 * Finds out which parts of each chain are stored. We first probe a few positions of each chain. Then we look up all
 * parts between the last position that's stored and the first one that isn't.
 */
async function searchStored(tx: Queries, chains: readonly Chain[]): Promise<ReadonlyMap<Chain, StoredBeginning>> {
  const probes = chains.map(toProbes);
  const found = await findParts(tx, chains, probes);
  const gaps = chains.map((chain, index) => {
    const own = probes[index] ?? [];
    const from = Math.max(-1, ...own.filter((at) => found.has(keyOf(chain, at)))) + 1;
    const to = Math.min(chain.uncheckedFrom, ...own.filter((at) => at >= from));
    return { from, positions: range(from, to) };
  });
  const stored = await findParts(
    tx,
    chains,
    gaps.map(({ positions }) => positions),
  );
  return new Map(chains.map((chain, index) => [chain, { from: gaps[index]?.from ?? 0, stored }]));
}

function toChains({ projectId, startedAt: createdAt, context, extras, parts, promptLength }: CallChains): Chain[] {
  const chains: Chain[] = [];
  if (context.length > 0) chains.push({ projectId, createdAt, parts: context, uncheckedFrom: context.length, isPacked: true });
  if (extras.length > 0) chains.push({ projectId, createdAt, parts: extras, uncheckedFrom: extras.length, isPacked: true });
  if (parts.length > 0) chains.push({ projectId, createdAt, parts, uncheckedFrom: findUnchecked(parts, promptLength), isPacked: false });
  return chains;
}

/**
 * Returns the index of the first part that we insert without a lookup. That's usually the first message after the last
 * response in the prompt, because everything after it is new. We start later if there are more than `maxUnchecked`
 * messages after the response, or if one of them is long.
 */
function findUnchecked(parts: readonly ChainPart[], promptLength: number): number {
  let uncheckedFrom = promptLength;
  while (uncheckedFrom > 0 && uncheckedFrom > promptLength - maxUnchecked && parts[uncheckedFrom - 1]?.role !== 'assistant')
    uncheckedFrom -= 1;
  for (let at = parts.length - 1; at >= uncheckedFrom; at -= 1) if ((parts[at]?.length ?? 0) > maxUncheckedLength) return at + 1;
  return uncheckedFrom;
}

/**
 * Selects the positions to look up first, which is all of them for extras. For messages, they start right before the
 * parts that we insert without a lookup, and go back in steps that double each time.
 */
function toProbes({ isPacked, uncheckedFrom }: Chain): number[] {
  if (isPacked) return range(0, uncheckedFrom);
  const probes: number[] = [];
  for (let step = 1, at = uncheckedFrom - 1; at >= 0; at -= step, step *= 2) probes.push(at);
  return probes;
}

function range(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from) }, (_, step) => from + step);
}

async function findParts(tx: Queries, chains: readonly Chain[], positions: readonly (readonly number[])[]): Promise<ReadonlySet<string>> {
  const requested = new Map<string, StoredKey>();
  for (const [index, chain] of chains.entries()) {
    for (const at of positions[index] ?? []) {
      const part = chain.parts[at];
      if (part) requested.set(keyOf(chain, at), { projectId: chain.projectId, hash: part.hash });
    }
  }
  return findStored(tx, 'parts', requested);
}

const partColumns: readonly Column<NewPart>[] = [
  ['hash', 'bytea', ({ part }) => part.hash],
  ['project_id', 'uuid', ({ projectId }) => projectId],
  ['parent_hash', 'bytea', ({ parentHash }) => parentHash],
  ['role', 'text', ({ part, packed }) => (packed ? 'extras' : part.role)],
  ['text', 'text', ({ part }) => (isExtra(part) ? '' : part.message.text)],
  ['details', 'jsonb', ({ part, packed }) => (packed ? JSON.stringify({ count: packed.count }) : detailsOf(part))],
  ['text_hash', 'bytea', ({ part, packed }) => (isExtra(part) && !packed ? part.textHash : null)],
  ['packed', 'bytea', ({ packed }) => packed?.content ?? null],
  ['created_at', 'float8', ({ createdAt }) => createdAt],
];

async function insertParts(tx: Queries, parts: readonly NewPart[]): Promise<void> {
  await storeExtraTexts(tx, parts.filter(hasExtra));
  await querySelected(tx, parts, partColumns, insertSql, ({ part, packed }) => packed?.content.length ?? (isExtra(part) ? 0 : part.length));
}

const insertSql = (rows: string): string =>
  `insert into parts (project_id, hash, parent_hash, role, content, text_hash, packed, created_at)
   select project_id, hash, parent_hash, role,
          case when role in ('user', 'assistant') then jsonb_build_object('text', text, 'tool_calls', details) else details end,
          text_hash, packed, to_timestamp(created_at / 1000)
     from (${rows}) as new
   on conflict (project_id, hash) do nothing`;

function hasExtra(added: NewPart): added is NewPart & NewExtra {
  return isExtra(added.part) && !added.packed;
}

function detailsOf(part: Part): string {
  if (isExtra(part)) return JSON.stringify({ position: part.position, ...part.details });
  return part.message.toolCalls.length === 0 ? '[]' : JSON.stringify(part.message.toolCalls);
}
