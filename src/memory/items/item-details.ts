/**
 * Reads everything that we know about a live or closed memory, including its history and the messages that it was
 * learned from.
 */
import { isUuid } from '../../core/ids.ts';
import type { Queries } from '../../db/database.ts';
import { type Item, itemColumns } from '../records/item-record.ts';
import { listVotes, type StoredVote } from './votes.ts';

export interface ItemDetails {
  readonly item: Item;
  /** The memory and all versions that it's connected to through corrections and merges, oldest first. */
  readonly history: readonly Item[];
  /** Null unless the memory was learned from messages. */
  readonly source: ItemSource | null;
  readonly votes: readonly StoredVote[];
}

export interface ItemSource {
  readonly batchId: string | null;
  readonly evidence: string | null;
  /** Null if the conversation was deleted or doesn't have a title. */
  readonly conversationTitle: string | null;
  /** The newest `maxMessages` messages of the batch that contain the evidence. */
  readonly messages: readonly EvidenceMessage[];
}

export interface EvidenceMessage {
  readonly position: number;
  readonly role: 'user' | 'assistant';
  /**
   * An excerpt of the message around the evidence, with white space collapsed. It has at most `maxExcerptLength`
   * characters.
   */
  readonly excerpt: string;
  readonly createdAt: Date;
}

const maxHistory = 100;
const maxMessages = 3;
const maxVotes = 20;
const maxExcerptLength = 1_200;

export async function readItemDetails(queries: Queries, projectId: string, id: string): Promise<ItemDetails | null> {
  if (!isUuid(id)) return null;
  const [row] = await queries.query<Item & Omit<ItemSource, 'messages'>>(
    `select ${itemColumns}, item.batch_id as "batchId", item.evidence, conversation.title as "conversationTitle"
       from memory_items item left join conversations conversation on conversation.id = item.conversation_id
      where item.id = $1::uuid and item.project_id = $2::uuid`,
    [id, projectId],
  );
  if (!row) return null;
  const { batchId, evidence, conversationTitle, ...item } = row;
  const [history, messages] = [await readHistory(queries, projectId, id), await readEvidence(queries, id)];
  const votes = await listVotes(queries, id, maxVotes);
  const isLearned = batchId !== null || evidence !== null;
  return { item, history, votes, source: isLearned ? { batchId, evidence, conversationTitle, messages } : null };
}

function readHistory(queries: Queries, projectId: string, id: string): Promise<Item[]> {
  return queries.query<Item>(
    `with recursive chain as (
       select $2::uuid as id
       union
       select next.id
         from chain
         join memory_items item on item.id = chain.id
        cross join lateral (
          select item.supersedes as id where item.supersedes is not null
          union all select item.superseded_by where item.superseded_by is not null
          union all select older.id from memory_items older where older.superseded_by = item.id
          union all select newer.id from memory_items newer where newer.supersedes = item.id) next
     )
     select ${itemColumns} from memory_items item
      where item.project_id = $1::uuid and item.id in (select id from chain limit ${maxHistory})
      order by item.id`,
    [projectId, id],
  );
}

/** Collapses white space in the same way as the quotation check in `learning/extraction.ts`. */
const collapsedTextSql = `regexp_replace(part.content ->> 'text', '\\s+', ' ', 'g')`;

function readEvidence(queries: Queries, id: string): Promise<EvidenceMessage[]> {
  return queries.query<EvidenceMessage>(
    `select slot.position, part.role, substr(text.collapsed, greatest(1, text.at - 400), ${maxExcerptLength}) as excerpt,
            slot.created_at as "createdAt"
       from memory_items item
       join memory_batch_ranges range on range.batch_id = item.batch_id and range.conversation_id = item.conversation_id
       join conversation_parts slot on slot.conversation_id = range.conversation_id
                                   and slot.position >= range.from_position and slot.position < range.to_position
       join parts part on part.project_id = item.project_id and part.hash = slot.part_hash
      cross join lateral (select ${collapsedTextSql} as collapsed) collapsed
      cross join lateral (select collapsed.collapsed, position(item.evidence in collapsed.collapsed) as at) text
      where item.id = $1::uuid and text.at > 0
      order by slot.position desc
      limit ${maxMessages}`,
    [id],
  );
}
