/** Reads the messages for a learning batch, and stores the batch with its groups. */
import type { Queries } from '../../db/database.ts';
import { toColumns } from '../../db/row-batches.ts';
import { signalBatch } from '../triggers/learning-triggers.ts';
import type { MessageSize, PlannedGroup } from './plan-groups.ts';

interface NewBatch {
  readonly id: string;
  readonly projectId: string;
  readonly kind: 'normal' | 'remember';
  readonly conversationId: string | null;
  readonly focus: string | null;
  readonly groups: readonly PlannedGroup[];
}

/** Stores a batch with its groups, starts its workflow, and returns its id. */
export async function insertBatch(tx: Queries, batch: NewBatch): Promise<string> {
  const { id, projectId, kind, conversationId, focus, groups } = batch;
  await tx.query(`insert into memory_batches (id, project_id, kind, conversation_id) values ($1::uuid, $2::uuid, $3::text, $4::uuid)`, [
    id,
    projectId,
    kind,
    conversationId,
  ]);
  await tx.query(
    `insert into memory_batch_groups (batch_id, project_id, position, subject, focus, messages)
     select $1::uuid, $2::uuid, new.position, new.subject, $3::text, new.messages
       from unnest($4::integer[], $5::text[], $6::integer[]) as new (position, subject, messages)`,
    [id, projectId, focus, groups.map((_, position) => position), ...toColumns(groups, 'subject', 'messages')],
  );
  const ranges = groups.flatMap((group, position) => group.ranges.map((range) => ({ ...range, position })));
  await tx.query(
    `insert into memory_batch_ranges (batch_id, group_position, conversation_id, from_position, to_position)
     select $1::uuid, new.* from unnest($2::integer[], $3::uuid[], $4::integer[], $5::integer[]) as new`,
    [id, ...toColumns(ranges, 'position', 'conversationId', 'from', 'to')],
  );
  await signalBatch(tx, { id, projectId });
  return id;
}

/** Records how far the batches of each conversation go. */
export async function advanceBatchCursor(tx: Queries, ends: ReadonlyMap<string, number>): Promise<void> {
  await tx.query(
    `update conversations as conversation set batched_messages = greatest(batched_messages, new.until)
       from unnest($1::uuid[], $2::integer[]) as new (id, until)
      where conversation.id = new.id`,
    [[...ends.keys()], [...ends.values()]],
  );
}

export interface WaitingConversation {
  readonly id: string;
  readonly subject: string | null;
  readonly from: number;
}

/** Returns the size of each message from position `from` on, in the order of the given conversations. */
export async function readSizes(tx: Queries, conversations: readonly WaitingConversation[]): Promise<MessageSize[]> {
  return tx.query<MessageSize>(
    `select slot.conversation_id as "conversationId", requested.subject, slot.position, octet_length(part.content::text) as bytes
       from unnest($1::uuid[], $2::text[], $3::integer[]) with ordinality as requested (id, subject, from_position, rank)
       join conversations conversation on conversation.id = requested.id
       join conversation_parts slot on slot.conversation_id = requested.id and slot.position >= requested.from_position
                                    and slot.position < conversation.messages
       join parts part on part.project_id = conversation.project_id and part.hash = slot.part_hash
      order by requested.rank, slot.position
      limit 20000`,
    toColumns(conversations, 'id', 'subject', 'from'),
  );
}
