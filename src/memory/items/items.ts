/**
 * Memory items: written, corrected, removed, rated (specification 3, 4.7, 4.8 rule 10). Each change is one transaction that holds the
 * project's lock shared, so that an erasure waits for it and what comes later sees the erasure.
 *
 * Of two that correct or remove the same item at once one wins; the other finds no live memory. Credentials are replaced before anything is
 * stored, and text that looks like an instruction to a model is refused.
 */
import { gatewayError } from '../../core/errors.ts';
import { newId } from '../../core/ids.ts';
import type { Clock } from '../../core/time.ts';
import type { Database, Queries } from '../../db/database.ts';
import { lockMemories } from '../../db/locks.ts';
import { maskCredentials } from '../../guardrails/credentials.ts';
import { findInjection } from '../../guardrails/injection.ts';
import { type Item, type ItemOrigin, itemColumns } from '../records/item-record.ts';
import { addItemPassages, deleteItemPassage } from '../records/passages.ts';
import { readProjectMemorySettings } from '../records/settings.ts';
import { hashNormalizedText } from '../text/normalized-text.ts';
import { requestEmbedding } from '../triggers/embedding-runs.ts';
import { expireOrphanedFacts } from './expire-facts.ts';
import { invalidatePage } from './invalidate-page.ts';
import type { NewItem, Rating } from './item-schemas.ts';

/** Who writes. A key is an agent: it neither pins nor touches what a person wrote. */
export interface Writer {
  readonly origin: 'agent' | 'person';
  /** `key:<prefix>`, or the person. */
  readonly author: string;
}

export interface Items {
  /** Throws `forbidden`, `guardrail_blocked`, `memory_off`. */
  write(projectId: string, item: NewItem, writer: Writer): Promise<Item>;
  /** Closes the item and writes a new one in its place. Throws `not_found`, `forbidden`, `guardrail_blocked`, `memory_off`. */
  correct(projectId: string, id: string, text: string, writer: Writer): Promise<Item>;
  /** Throws `not_found`, `forbidden`. */
  remove(projectId: string, id: string, writer: Writer): Promise<Item>;
  /** Only a person pins and unpins. Throws `not_found`, `forbidden`. */
  pin(projectId: string, id: string, pinned: boolean, writer: Writer): Promise<Item>;
  /** A person says that a memory is right: its `wrong` ratings until now no longer leave it out of recall. Throws `not_found`, `forbidden`. */
  confirm(projectId: string, id: string, writer: Writer): Promise<Item>;
  /** Throws `not_found`. */
  rate(projectId: string, id: string, rating: Rating): Promise<Item>;
}

export interface ItemsOptions {
  readonly database: Database;
  readonly clock: Clock;
}

export function createItems({ database, clock }: ItemsOptions): Items {
  const withProjectLock = <Result>(projectId: string, work: (tx: Queries) => Promise<Result>): Promise<Result> =>
    database.transaction(async (tx) => {
      await tx.query(`select pg_advisory_xact_lock_shared(hashtextextended($1::text, 0))`, [projectId]);
      return work(tx);
    });

  const insert = async (tx: Queries, projectId: string, item: InsertRow): Promise<Item> => {
    const now = clock.now();
    const [row] = await tx.query<Item>(
      `insert into memory_items as item (id, project_id, subject, text, kind, importance, pinned, origin, author, supersedes,
                                         words_sha256, created_at, updated_at)
       values ($1::uuid, $2::uuid, $3::text, $4::text, $5::text, $6::smallint, $7::boolean, $8::text, $9::text, $10::uuid,
               $11::bytea, $12::timestamptz, $12::timestamptz)
       returning ${itemColumns}`,
      [
        newId(now),
        projectId,
        item.subject,
        item.text,
        item.kind,
        item.importance,
        item.pinned,
        item.origin,
        item.author,
        item.supersedes,
        hashNormalizedText(item.text),
        new Date(now),
      ],
    );
    const written = requireLive(row);
    await addItemPassages(tx, projectId, [written]);
    await requestEmbedding(tx, projectId);
    return written;
  };

  const close = async (tx: Queries, projectId: string, id: string, supersededBy: string | null): Promise<Item> => {
    const [row] = await tx.query<Item>(
      `update memory_items as item
          set state = 'closed', closed_at = $2::timestamptz, updated_at = $2::timestamptz, superseded_by = $3::uuid
        where item.id = $1::uuid
       returning ${itemColumns}`,
      [id, new Date(clock.now()), supersededBy],
    );
    const closed = requireLive(row);
    await deleteItemPassage(tx, id);
    await expireOrphanedFacts(tx, [id]);
    await invalidatePage(tx, { projectId, subject: closed.subject }, clock);
    return closed;
  };

  /** Of a live item, whose text stays. */
  const updateLive = async (queries: Queries, { projectId, id, set, values = [] }: LiveUpdate): Promise<Item> => {
    const [row] = await queries.query<Item>(
      `update memory_items as item set ${set}, updated_at = $3::timestamptz
        where item.id = $1::uuid and item.project_id = $2::uuid and item.state = 'live'
       returning ${itemColumns}`,
      [id, projectId, new Date(clock.now()), ...values],
    );
    return requireLive(row);
  };

  return {
    async write(projectId, item, writer) {
      if (item.pinned) assertPerson(writer, 'pin');
      const text = sanitizeText(item.text);
      return withProjectLock(projectId, async (tx) => {
        await assertMemoryEnabled(tx, projectId);
        return insert(tx, projectId, { ...item, ...writer, text, supersedes: null });
      });
    },
    async correct(projectId, id, text, writer) {
      const sanitized = sanitizeText(text);
      return withProjectLock(projectId, async (tx) => {
        await assertMemoryEnabled(tx, projectId);
        await lockMemories(tx, projectId);
        const old = await lockLive(tx, projectId, id);
        assertMayChange(old, writer);
        const { kind, importance, subject } = old;
        // Words that nobody has looked at are not pinned by a key, also where a person had pinned those before them.
        const pinned = old.pinned && writer.origin === 'person';
        const corrected = await insert(tx, projectId, { text: sanitized, kind, importance, subject, pinned, ...writer, supersedes: id });
        await close(tx, projectId, id, corrected.id);
        return corrected;
      });
    },
    remove: (projectId, id, writer) =>
      withProjectLock(projectId, async (tx) => {
        await lockMemories(tx, projectId);
        assertMayChange(await lockLive(tx, projectId, id), writer);
        return close(tx, projectId, id, null);
      }),
    async pin(projectId, id, pinned, writer) {
      assertPerson(writer, pinned ? 'pin' : 'unpin');
      return updateLive(database, { projectId, id, set: 'pinned = $4::boolean', values: [pinned] });
    },
    async confirm(projectId, id, writer) {
      assertPerson(writer, 'confirm');
      return updateLive(database, { projectId, id, set: 'wrong_overruled = ratings_wrong' });
    },
    async rate(projectId, id, rating) {
      if (rating === 'useful') return updateLive(database, { projectId, id, set: 'ratings_useful = ratings_useful + 1' });
      return withProjectLock(projectId, async (tx) => {
        await lockMemories(tx, projectId);
        const { inRecall } = await lockLive(tx, projectId, id);
        const rated = await updateLive(tx, { projectId, id, set: 'ratings_wrong = ratings_wrong + 1' });
        if (inRecall && !rated.inRecall) await invalidatePage(tx, { projectId, subject: rated.subject }, clock);
        return rated;
      });
    },
  };
}

interface LiveUpdate {
  readonly projectId: string;
  readonly id: string;
  readonly set: string;
  /** $4 and on. */
  readonly values?: readonly unknown[];
}

interface InsertRow extends NewItem {
  readonly origin: ItemOrigin;
  readonly author: string;
  readonly supersedes: string | null;
}

/** The text as it may be stored. The message names the class and the place, never the text (specification 7.4). */
function sanitizeText(text: string): string {
  const kind = findInjection(text);
  if (kind !== null) throw gatewayError('guardrail_blocked', { message: `prompt_injection in input (${kind})` });
  return maskCredentials(text);
}

async function assertMemoryEnabled(tx: Queries, projectId: string): Promise<void> {
  if (!(await readProjectMemorySettings(tx, projectId)).enabled) throw gatewayError('memory_off');
}

/** Whoever comes second waits here, and then finds the item closed. */
async function lockLive(tx: Queries, projectId: string, id: string): Promise<Item> {
  const [row] = await tx.query<Item>(
    `select ${itemColumns} from memory_items as item
      where item.id = $1::uuid and item.project_id = $2::uuid and item.state = 'live'
        for update`,
    [id, projectId],
  );
  return requireLive(row);
}

function requireLive(row: Item | undefined): Item {
  if (!row) throw gatewayError('not_found', { message: 'no such live memory' });
  return row;
}

function assertPerson({ origin }: Writer, verb: 'pin' | 'unpin' | 'confirm'): void {
  if (origin === 'agent') throw gatewayError('forbidden', { message: `a virtual key may not ${verb} a memory` });
}

function assertMayChange({ origin }: Item, writer: Writer): void {
  if (writer.origin === 'agent' && origin === 'person')
    throw gatewayError('forbidden', { message: 'a person wrote this memory; a virtual key may not change it' });
}
