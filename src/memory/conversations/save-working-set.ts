/** Writes the changes of a batch to conversations, their messages and passages, and the outbox rows of their idle timers. */
import { toArrayLiteral } from '../../db/array-literal.ts';
import type { Queries } from '../../db/database.ts';
import { enqueue } from '../../db/outbox.ts';
import { toBatches, toColumns } from '../../db/row-batches.ts';
import { addConversationPassages } from '../records/passages.ts';
import { triggerLearning } from '../triggers/learning-triggers.ts';
import { toIdleTimerEntry } from './idle-timer.ts';
import type { Conversation, ConversationWorkingSet } from './working-set.ts';

export async function saveWorkingSet(tx: Queries, workingSet: ConversationWorkingSet): Promise<void> {
  const changed = [...workingSet.all()].filter((conversation) => conversation.changed);
  await insertNew(
    tx,
    changed.filter((conversation) => conversation.isNew),
  );
  await updateExisting(
    tx,
    changed.filter((conversation) => !conversation.isNew),
  );
  await insertMessages(tx, changed);
  await addConversationPassages(
    tx,
    changed.map(({ id, projectId, subject, added }) => ({
      conversationId: id,
      projectId,
      subject,
      messages: added.map(({ part }) => part.message),
    })),
  );
  await attributeResponses(tx, workingSet);
  await enqueue(tx, changed.filter((conversation) => conversation.needsIdleTimer).map(toIdleTimerEntry));
  // A repeated call can make a conversation learnable that is already read.
  const newlyLearnable = changed.filter(({ state, learnable, isNew }) => state === 'read' && learnable && !isNew);
  for (const projectId of new Set(newlyLearnable.map((conversation) => conversation.projectId))) await triggerLearning(tx, projectId);
}

async function insertNew(tx: Queries, conversations: readonly Conversation[]): Promise<void> {
  if (conversations.length === 0) return;
  await tx.query(
    `insert into conversations (id, project_id, source, subject, state, opened, learnable, calls, messages, tip_key, tip_message_key,
                                started_at, last_turn_at)
     select id, project_id, source, subject, state, opened, learnable, calls, messages, decode(tip_key, 'hex'), decode(tip_message_key, 'hex'),
            started_at, last_turn_at
       from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::integer[], $7::boolean[], $8::integer[],
                   $9::integer[], $10::text[], $11::text[], $12::timestamptz[], $13::timestamptz[])
         as new (id, project_id, source, subject, state, opened, learnable, calls, messages, tip_key, tip_message_key, started_at, last_turn_at)`,
    [...toColumns(conversations, 'id', 'projectId', 'source', 'subject'), ...toMutableColumns(conversations)],
  );
}

async function updateExisting(tx: Queries, conversations: readonly Conversation[]): Promise<void> {
  if (conversations.length === 0) return;
  await tx.query(
    `update conversations as existing
        set state = new.state, opened = new.opened, learnable = new.learnable, calls = new.calls, messages = new.messages,
            tip_key = decode(new.tip_key, 'hex'), tip_message_key = decode(new.tip_message_key, 'hex'), started_at = new.started_at, last_turn_at = new.last_turn_at,
            read_at = case when new.state = 'read' then existing.read_at end
       from unnest($1::uuid[], $2::text[], $3::integer[], $4::boolean[], $5::integer[], $6::integer[], $7::text[], $8::text[],
                   $9::timestamptz[], $10::timestamptz[])
         as new (id, state, opened, learnable, calls, messages, tip_key, tip_message_key, started_at, last_turn_at)
      where existing.id = new.id`,
    [...toColumns(conversations, 'id'), ...toMutableColumns(conversations)],
  );
}

/** Mutable columns in the order of both statements. */
function toMutableColumns(conversations: readonly Conversation[]): string[] {
  return [
    ...toColumns(conversations, 'state', 'opened', 'learnable', 'calls', 'messages', 'tipKey', 'tipMessageKey'),
    toArrayLiteral(conversations, ({ startedAt }) => new Date(startedAt).toISOString()),
    toArrayLiteral(conversations, ({ lastTurnAt }) => new Date(lastTurnAt).toISOString()),
  ];
}

async function insertMessages(tx: Queries, conversations: readonly Conversation[]): Promise<void> {
  const rows = conversations.flatMap(({ id, added }) =>
    added.map(({ position, part: { hash, messageHash }, scopedKey, callId, createdAt }) => ({
      conversationId: id,
      position,
      hash,
      scopedKey,
      messageHash,
      callId,
      createdAt: new Date(createdAt).toISOString(),
    })),
  );
  for (const slice of toBatches(rows)) {
    await tx.query(
      `insert into conversation_parts (conversation_id, position, part_hash, place_key, message_hash, call_id, created_at)
       select conversation_id, position, decode(hash, 'hex'), decode(key, 'hex'), decode(message_hash, 'hex'), call_id, created_at
         from unnest($1::uuid[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::uuid[], $7::timestamptz[])
           as new (conversation_id, position, hash, key, message_hash, call_id, created_at)`,
      toColumns(slice, 'conversationId', 'position', 'hash', 'scopedKey', 'messageHash', 'callId', 'createdAt'),
    );
  }
}

async function attributeResponses(tx: Queries, workingSet: ConversationWorkingSet): Promise<void> {
  const responses = workingSet.attributedResponses();
  if (responses.length === 0) return;
  await tx.query(
    `update conversation_parts as part
        set call_id = response.call_id
       from unnest($1::uuid[], $2::integer[], $3::uuid[]) as response (conversation_id, position, call_id)
      where part.conversation_id = response.conversation_id and part.position = response.position`,
    [responses.map(({ conversation }) => conversation.id), ...toColumns(responses, 'position', 'callId')],
  );
}
