/**
 * Writes, corrects, removes and rates memory items. Each change is a transaction under the project's shared lock, so an
 * erasure waits until it has been committed, and later changes see the erasure (docs/api/reference.md#memory-items).
 *
 * If two requests correct or remove an item at the same time, one of them succeeds and the other one throws
 * `not_found`. We mask credentials before we store a text, and reject texts in which the injection detector finds
 * something.
 */
import { gatewayError } from '../../core/errors.ts';
import { newId } from '../../core/ids.ts';
import type { Clock } from '../../core/time.ts';
import type { Database, Queries } from '../../db/database.ts';
import { lockMemories, lockProject } from '../../db/locks.ts';
import { databaseOf } from '../../db/query-slots.ts';
import { maskCredentials } from '../../guardrails/credentials.ts';
import { findInjection } from '../../guardrails/injection.ts';
import { type Item, type ItemOrigin, inheritedWrongSql, itemColumns } from '../records/item-record.ts';
import { addItemPassages, deleteItemPassage } from '../records/passages.ts';
import { readProjectMemorySettings } from '../records/settings.ts';
import { hashNormalizedText } from '../text/normalized-text.ts';
import { requestEmbedding } from '../triggers/embedding-runs.ts';
import { expireOrphanedFacts } from './expire-facts.ts';
import { invalidatePage } from './invalidate-page.ts';
import type { NewItem, Rating } from './item-schemas.ts';
import { overruleVotes, saveVotes } from './votes.ts';

/**
 * The author of a change. A virtual key counts as an agent. Agents can't pin memories or change the ones that a person
 * wrote.
 */
export interface Writer {
  readonly origin: 'agent' | 'person';
  /** Either `key:<prefix>` or `person:<id>`. */
  readonly author: string;
}

/** Functions that take an `id` throw `not_found` if the project has no live memory with that id. */
export function createItems({ database, clock }: { readonly database: Database; readonly clock: Clock }) {
  const withProjectLock = <Result>(projectId: string, work: (tx: Queries) => Promise<Result>): Promise<Result> =>
    databaseOf(database, projectId).transaction(async (tx) => {
      await lockProject(tx, projectId, 'shared');
      return work(tx);
    });

  const inheritedWrong = `case when $8::text = 'agent'
                               then ${inheritedWrongSql({ projectId: '$2::uuid', subject: '$3::text', textSha256: '$11::bytea' })} else 0 end`;
  const insert = async (tx: Queries, projectId: string, item: InsertRow): Promise<Item> => {
    const [row] = await tx.query<Item>(
      // Use the database's clock, like tombstones do. If this host's clock were slow, a memory from after an erasure
      // could look older than the erasure.
      `insert into memory_items as item (id, project_id, subject, text, kind, importance, pinned, origin, author, supersedes,
                                         words_sha256, ratings_wrong, created_at, updated_at)
       values ($1::uuid, $2::uuid, $3::text, $4::text, $5::text, $6::smallint, $7::boolean, $8::text, $9::text, $10::uuid,
               $11::bytea, ${inheritedWrong}, clock_timestamp(), clock_timestamp())
       returning ${itemColumns}`,
      [
        newId(clock.now()),
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
      ],
    );
    const written = requireLive(row);
    await addItemPassages(tx, projectId, [written]);
    await requestEmbedding(tx, projectId);
    return written;
  };

  const close = async (
    tx: Queries,
    { projectId, id, supersededBy, author }: { projectId: string; id: string; supersededBy: string | null; author: string },
  ): Promise<Item> => {
    const [row] = await tx.query<Item>(
      `update memory_items as item
          set state = 'closed', closed_at = $2::timestamptz, closed_by = $4::text, updated_at = $2::timestamptz, superseded_by = $3::uuid
        where item.id = $1::uuid
       returning ${itemColumns}`,
      [id, new Date(clock.now()), supersededBy, author],
    );
    const closed = requireLive(row);
    await deleteItemPassage(tx, id);
    await expireOrphanedFacts(tx, [id]);
    await invalidatePage(tx, { projectId, subject: closed.subject }, clock);
    return closed;
  };

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
    /** Throws `forbidden`, `guardrail_blocked` or `memory_off`. */
    async write(projectId: string, item: NewItem, writer: Writer): Promise<Item> {
      if (item.pinned) assertPerson(writer, 'pin');
      const text = sanitizeText(item.text);
      return withProjectLock(projectId, async (tx) => {
        await assertMemoryEnabled(tx, projectId);
        return insert(tx, projectId, { ...item, ...writer, text, supersedes: null });
      });
    },
    /** Closes the item and writes its replacement. Throws `forbidden`, `guardrail_blocked` or `memory_off`. */
    async correct(projectId: string, id: string, text: string, writer: Writer): Promise<Item> {
      const sanitized = sanitizeText(text);
      return withProjectLock(projectId, async (tx) => {
        await assertMemoryEnabled(tx, projectId);
        await lockMemories(tx, projectId);
        const old = await lockLive(tx, projectId, id);
        assertMayChange(old, writer);
        const { kind, importance, subject } = old;
        // A person's correction keeps the pin. If a key made the correction, nobody has reviewed the new text, so it
        // loses the pin.
        const pinned = old.pinned && writer.origin === 'person';
        const corrected = await insert(tx, projectId, { text: sanitized, kind, importance, subject, pinned, ...writer, supersedes: id });
        await close(tx, { projectId, id, supersededBy: corrected.id, author: writer.author });
        return corrected;
      });
    },
    /** Throws `forbidden` if a virtual key removes a memory that a person wrote. */
    remove: (projectId: string, id: string, writer: Writer): Promise<Item> =>
      withProjectLock(projectId, async (tx) => {
        await lockMemories(tx, projectId);
        assertMayChange(await lockLive(tx, projectId, id), writer);
        return close(tx, { projectId, id, supersededBy: null, author: writer.author });
      }),
    /**
     * Undoes `remove` by writing a new live item with the same text, subject, kind, importance and pin. The removed
     * item stays closed, and its history leads to the new one.
     *
     * Throws `forbidden` unless the writer is a person, `not_found` unless the item is closed, and `conflict` if
     * another item has taken its place. It can also throw whatever `write` throws.
     */
    async restore(projectId: string, id: string, writer: Writer): Promise<Item> {
      assertPerson(writer, 'restore');
      return withProjectLock(projectId, async (tx) => {
        await assertMemoryEnabled(tx, projectId);
        await lockMemories(tx, projectId);
        const { text, kind, importance, subject, pinned } = await lockRemoved(tx, projectId, id);
        const restored = await insert(tx, projectId, {
          ...{ text: sanitizeText(text), kind, importance, subject, pinned, ...writer, supersedes: id },
        });
        await tx.query('update memory_items set superseded_by = $2::uuid, updated_at = $3::timestamptz where id = $1::uuid', [
          id,
          restored.id,
          new Date(clock.now()),
        ]);
        return restored;
      });
    },
    /** Pins or unpins an item. Throws `forbidden` unless the writer is a person. */
    async pin(projectId: string, id: string, pinned: boolean, writer: Writer): Promise<Item> {
      assertPerson(writer, pinned ? 'pin' : 'unpin');
      return updateLive(databaseOf(database, projectId), { projectId, id, set: 'pinned = $4::boolean', values: [pinned] });
    },
    /**
     * Overrules all `wrong` ratings that the memory has so far, so that recall uses it again. Throws `forbidden` unless
     * the writer is a person.
     */
    async confirm(projectId: string, id: string, writer: Writer): Promise<Item> {
      assertPerson(writer, 'confirm');
      return withProjectLock(projectId, async (tx) => {
        await lockMemories(tx, projectId);
        const { inRecall, subject } = await lockLive(tx, projectId, id);
        // Recall ignored this memory until now, so the page was built without it and has to be rebuilt.
        if (!inRecall) await invalidatePage(tx, { projectId, subject }, clock);
        await overruleVotes(tx, id);
        return updateLive(tx, { projectId, id, set: 'wrong_overruled = ratings_wrong' });
      });
    },
    /** Counts a rating. If `voter` isn't null, this also records the voter's vote. */
    async rate(projectId: string, id: string, rating: Rating, voter: string | null = null): Promise<Item> {
      const vote = async (tx: Queries): Promise<void> => {
        const votes = [{ itemId: id, rating }];
        if (voter !== null) await saveVotes(tx, { projectId, voter, subject: null, callId: null, votes });
      };
      if (rating === 'useful')
        return databaseOf(database, projectId).transaction(async (tx) => {
          const rated = await updateLive(tx, { projectId, id, set: 'ratings_useful = ratings_useful + 1' });
          await vote(tx);
          return rated;
        });
      return withProjectLock(projectId, async (tx) => {
        await lockMemories(tx, projectId);
        const { inRecall } = await lockLive(tx, projectId, id);
        const rated = await updateLive(tx, { projectId, id, set: 'ratings_wrong = ratings_wrong + 1' });
        await vote(tx);
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
  /** Parameters for the placeholders $4, $5 and so on in `set`. */
  readonly values?: readonly unknown[];
}

interface InsertRow extends NewItem {
  readonly origin: ItemOrigin;
  readonly author: string;
  readonly supersedes: string | null;
}

/**
 * Masks credentials. Throws `guardrail_blocked` if the text contains an injection. The message names the rule and the
 * class, but doesn't quote the text.
 */
function sanitizeText(text: string): string {
  const kind = findInjection(text);
  if (kind !== null) throw gatewayError('guardrail_blocked', { message: `prompt_injection in input (${kind})` });
  return maskCredentials(text);
}

async function assertMemoryEnabled(tx: Queries, projectId: string): Promise<void> {
  if (!(await readProjectMemorySettings(tx, projectId)).enabled) throw gatewayError('memory_off');
}

/**
 * Locks the item and returns it if it's in this state, or undefined if it isn't. If another transaction is changing the
 * item, we wait for it and check the new state. So if two people remove an item at the same time, the second one gets
 * undefined. If two people restore it, the second one gets the item with `supersededBy` set.
 */
async function lockItem(tx: Queries, projectId: string, id: string, state: Item['state']): Promise<Item | undefined> {
  const [row] = await tx.query<Item>(
    `select ${itemColumns} from memory_items as item
      where item.id = $1::uuid and item.project_id = $2::uuid and item.state = $3::text
        for update`,
    [id, projectId, state],
  );
  return row;
}

async function lockLive(tx: Queries, projectId: string, id: string): Promise<Item> {
  return requireLive(await lockItem(tx, projectId, id, 'live'));
}

async function lockRemoved(tx: Queries, projectId: string, id: string): Promise<Item> {
  const row = await lockItem(tx, projectId, id, 'closed');
  if (!row) throw gatewayError('not_found', { message: 'no such memory, or it has not been removed' });
  if (row.supersededBy !== null)
    throw gatewayError('conflict', { message: 'this memory has been replaced by another one; see its history' });
  return row;
}

function requireLive(row: Item | undefined): Item {
  if (!row) throw gatewayError('not_found', { message: 'no such memory, or it has been closed' });
  return row;
}

function assertPerson({ origin }: Writer, verb: 'pin' | 'unpin' | 'confirm' | 'restore'): void {
  if (origin === 'agent') throw gatewayError('forbidden', { message: `virtual keys are not allowed to ${verb} memories` });
}

function assertMayChange({ origin }: Item, writer: Writer): void {
  if (writer.origin === 'agent' && origin === 'person')
    throw gatewayError('forbidden', { message: 'virtual keys are not allowed to change this memory, because a person wrote it' });
}
