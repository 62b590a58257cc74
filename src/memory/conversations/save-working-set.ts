/** Writes a batch's changes to conversations, messages and passages, and starts the idle timers of the projects. */
import type { Queries } from '../../db/database.ts';
import { type Column, querySelected, toColumns } from '../../db/row-batches.ts';
import { addConversationPassages } from '../records/passages.ts';
import { triggerLearning } from '../triggers/learning-triggers.ts';
import { startIdleTimers } from './idle-timer.ts';
import type { AppendedMessage, Conversation, ConversationWorkingSet } from './working-set.ts';

export async function saveWorkingSet(tx: Queries, workingSet: ConversationWorkingSet): Promise<void> {
  const changed = [...workingSet.all()].filter((conversation) => conversation.changed);
  const created = changed.filter(({ isNew }) => isNew);
  const existing = changed.filter(({ isNew }) => !isNew);
  await querySelected(tx, created, newColumns, insertConversationsSql);
  await querySelected(tx, existing, [idColumn, ...mutableColumns], updateConversationsSql);
  const messages = changed.flatMap(({ id, added }) => added.map((message): AddedRow => ({ conversationId: id, added: message })));
  await querySelected(tx, messages, messageColumns, insertMessagesSql);
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
  await startIdleTimers(
    tx,
    changed.filter((conversation) => conversation.needsIdleTimer),
  );
  // If a call is repeated, a closed conversation can become learnable. So check whether a batch is due.
  const newlyLearnable = changed.filter(({ state, learnable, isNew }) => state === 'read' && learnable && !isNew);
  for (const projectId of new Set(newlyLearnable.map((conversation) => conversation.projectId))) await triggerLearning(tx, projectId);
}

/**
 * The times come from the hosts' clocks. If a clock is ahead, use the current time instead, because the conversation
 * would otherwise stay open until the time is reached.
 */
const lastTurnSql = (lastTurnAt: string): string => `least(to_timestamp(${lastTurnAt} / 1000), now())`;

const insertConversationsSql = (rows: string): string =>
  `insert into conversations (id, project_id, source, subject, state, opened, learnable, calls, messages, tip_key, tip_message_key,
                              started_at, last_turn_at)
   select id, project_id, source, subject, state, opened, learnable, calls, messages, tip_key, tip_message_key,
          to_timestamp(started_at / 1000), ${lastTurnSql('last_turn_at')}
     from (${rows}) as new`;

const updateConversationsSql = (rows: string): string =>
  `update conversations as existing
      set state = new.state, opened = new.opened, learnable = new.learnable, calls = new.calls, messages = new.messages,
          tip_key = new.tip_key, tip_message_key = new.tip_message_key, started_at = to_timestamp(new.started_at / 1000),
          last_turn_at = ${lastTurnSql('new.last_turn_at')}, read_at = case when new.state = 'read' then existing.read_at end
     from (${rows}) as new
    where existing.id = new.id`;

const idColumn: Column<Conversation> = ['id', 'uuid', ({ id }) => id];

/** Columns that an update can change. Times are sent in whole milliseconds. */
const mutableColumns: readonly Column<Conversation>[] = [
  ['state', 'text', ({ state }) => state],
  ['opened', 'integer', ({ opened }) => opened],
  ['learnable', 'boolean', ({ learnable }) => learnable],
  ['calls', 'integer', ({ calls }) => calls],
  ['messages', 'integer', ({ messages }) => messages],
  ['tip_key', 'bytea', ({ tipKey }) => tipKey],
  ['tip_message_key', 'bytea', ({ tipMessageKey }) => tipMessageKey],
  ['started_at', 'float8', ({ startedAt }) => Math.trunc(startedAt)],
  ['last_turn_at', 'float8', ({ lastTurnAt }) => Math.trunc(lastTurnAt)],
];

const newColumns: readonly Column<Conversation>[] = [
  idColumn,
  ['project_id', 'uuid', ({ projectId }) => projectId],
  ['source', 'text', ({ source }) => source],
  ['subject', 'text', ({ subject }) => subject],
  ...mutableColumns,
];

interface AddedRow {
  readonly conversationId: string;
  readonly added: AppendedMessage;
}

const messageColumns: readonly Column<AddedRow>[] = [
  ['conversation_id', 'uuid', ({ conversationId }) => conversationId],
  ['position', 'integer', ({ added }) => added.position],
  ['part_hash', 'bytea', ({ added }) => added.part.hash],
  ['place_key', 'bytea', ({ added }) => added.scopedKey],
  ['message_hash', 'bytea', ({ added }) => added.part.messageHash],
  ['call_id', 'uuid', ({ added }) => added.callId],
  ['created_at', 'float8', ({ added }) => Math.trunc(added.createdAt)],
];

const insertMessagesSql = (rows: string): string =>
  `insert into conversation_parts (conversation_id, position, part_hash, place_key, message_hash, call_id, created_at)
   select conversation_id, position, part_hash, place_key, message_hash, call_id, to_timestamp(created_at / 1000)
     from (${rows}) as new`;

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
