/**
 * Imports conversations with the functions that store recorded calls. This way, imported conversations can be found,
 * continued and erased, and they expire in the same way.
 *
 * A conversation may be longer than a batch. Until its last message is stored, its row has the state `read` without a
 * `read_at`, which never happens for other conversations, and it isn't learnable. If somebody repeats the import, it
 * continues with this row. All other existing rows count as present and don't change.
 */
import { newId } from '../../core/ids.ts';
import type { Queries } from '../../db/database.ts';
import { normalizeMessage } from '../../dialects/prompt/prompt.ts';
import { type CallText, findStoredCallIds, storeTexts } from '../conversations/call-texts.ts';
import { chainMessages, hashScope, type Sha256, toScopedKey } from '../conversations/chain.ts';
import { saveWorkingSet } from '../conversations/save-working-set.ts';
import { type AppendedMessage, type Conversation, createConversationWorkingSet } from '../conversations/working-set.ts';
import { deriveTitle, formatTranscript, readMessages } from '../records/conversation-messages.ts';
import { createCredentialMasker } from '../text/credential-masker.ts';
import { requestEmbedding } from '../triggers/embedding-runs.ts';
import { triggerLearning } from '../triggers/learning-triggers.ts';
import { type RecordOf, timesOf } from './format.ts';
import { type ImportBatch, mapIds } from './import-batch.ts';

/** A conversation in the file. It's open until we've read its last message. */
export interface OpenConversation {
  readonly record: RecordOf<'conversation'>;
  /** Null until the first batch of the conversation is imported. */
  state: ConversationState | null;
}

type ConversationState =
  | { readonly kind: 'open'; readonly id: string }
  | { readonly kind: 'present' }
  | { readonly kind: 'refused'; readonly reason: string };

export interface ConversationPart {
  readonly open: OpenConversation;
  readonly messages: readonly RecordOf<'message'>[];
  readonly isLast: boolean;
}

export async function importConversations(batch: ImportBatch, parts: readonly ConversationPart[]): Promise<void> {
  const { tx, tally, writes } = batch;
  const ids = await mapIds(batch, 'conversations', parts, ({ open }) => open.record.id);
  const storedIds = parts.flatMap(({ open }) => ids.find(open.record.id) ?? []);
  const stored = await lockStored(tx, storedIds);
  const appended = new Map<string, AppendedPart>();
  for (const part of parts) {
    const { open, messages } = part;
    const row = stored.get(ids.find(open.record.id) ?? '');
    const id = row?.id ?? ids.newIdFor(open.record.id);
    // The file may contain two conversations with the same id. Ignore the messages of the second one.
    const state: ConversationState = appended.has(id) ? { kind: 'present' } : nextState(batch, open, row, id);
    if (open.state === null && state.kind === 'refused') tally.refuse('conversation', open.record.line, state.reason);
    else if (open.state === null) tally.count('conversation', row || state.kind === 'present' ? 'present' : 'added');
    open.state = state;
    if (state.kind === 'refused') for (const { line } of messages) tally.refuse('message', line, state.reason);
    else if (state.kind === 'present') tally.count('message', 'present', messages.length);
    else {
      const accepted = refuseFuture(batch, messages);
      if (writes) appended.set(state.id, append(batch, { ...part, messages: accepted, id: state.id, row }));
      else tally.count('message', 'added', accepted.length);
    }
  }
  await store(batch, [...appended.values()]);
}

function nextState(batch: ImportBatch, { record, state }: OpenConversation, row: StoredRow | undefined, id: string): ConversationState {
  if (state?.kind === 'present' || state?.kind === 'refused') return state;
  const refusal = batch.refusalOf(record.subject, record.started_at, timesOf(record));
  if (refusal !== null) return { kind: 'refused', reason: refusal };
  if (state !== null && batch.writes && !row) return { kind: 'refused', reason: 'the conversation was deleted during the import' };
  return row && !row.isUnfinished ? { kind: 'present' } : { kind: 'open', id };
}

/** Returns the messages whose times aren't in the future. */
function refuseFuture({ tally, refusalOf }: ImportBatch, messages: readonly RecordOf<'message'>[]): readonly RecordOf<'message'>[] {
  return messages.filter(({ line, created_at }) => {
    const refusal = refusalOf(null, created_at);
    if (refusal !== null) tally.refuse('message', line, refusal);
    return refusal === null;
  });
}

interface StoredRow {
  readonly id: string;
  readonly isUnfinished: boolean;
  readonly count: number;
  readonly tipHash: Sha256 | null;
}

/**
 * Locks the rows in the order of their ids, like the code that records calls does. Otherwise the two could deadlock.
 */
async function lockStored(tx: Queries, ids: readonly string[]): Promise<ReadonlyMap<string, StoredRow>> {
  const rows = await tx.query<StoredRow>(
    `select conversation.id, conversation.state = 'read' and conversation.read_at is null as "isUnfinished", conversation.messages as count,
            (select encode(part_hash, 'hex') from conversation_parts
              where conversation_id = conversation.id and position = conversation.messages - 1) as "tipHash"
       from conversations conversation where conversation.id = any($1::uuid[])
      order by conversation.id
        for update`,
    [ids],
  );
  return new Map(rows.map((row) => [row.id, row]));
}

interface AppendedPart {
  readonly part: ConversationPart;
  readonly conversation: Conversation;
}

function append(
  { projectId, tally, keepsIds }: ImportBatch,
  part: ConversationPart & { readonly id: string; readonly row: StoredRow | undefined },
): AppendedPart {
  const { id, row } = part;
  const { source, subject, calls, started_at, last_turn_at } = part.open.record;
  const scope = hashScope(projectId, source, subject);
  const conversation: Conversation = {
    ...{ id, projectId, source, subject, scope, isNew: !row, state: 'read', opened: 1, learnable: false, calls },
    ...{ messages: row?.count ?? 0, startedAt: Date.parse(started_at), lastTurnAt: Date.parse(last_turn_at) },
    ...{ tipKey: '', tipMessageKey: '', messageHashes: new Map(), changed: !row, needsIdleTimer: false, added: [] },
  };
  let tipHash = row?.tipHash ?? null;
  for (const { line, position, role, text, tool_calls: toolCalls, starts, call, created_at } of part.messages) {
    const message = normalizeMessage(role, { text, toolCalls });
    if (position < conversation.messages) tally.count('message', 'present');
    else if (position > conversation.messages) tally.refuse('message', line, 'the previous message of the conversation is missing');
    else if (!message) tally.refuse('message', line, 'the message is empty');
    else {
      for (const chained of chainMessages([masker.maskMessage(message)], starts ? null : tipHash)) {
        const scopedKey = toScopedKey(scope, chained.hash);
        conversation.added.push({ position, part: chained, scopedKey, createdAt: Date.parse(created_at), callId: keepsIds ? call : null });
        conversation.tipKey = scopedKey;
        conversation.tipMessageKey = toScopedKey(scope, chained.messageHash);
        tipHash = chained.hash;
      }
      conversation.messages += 1;
      conversation.changed = true;
      tally.count('message', 'added');
    }
  }
  return { part, conversation };
}

const masker = createCredentialMasker();

async function store(batch: ImportBatch, appended: readonly AppendedPart[]): Promise<void> {
  if (appended.length === 0) return;
  const { tx, projectId } = batch;
  const workingSet = createConversationWorkingSet();
  for (const { conversation } of appended) workingSet.add(conversation, []);
  await saveWorkingSet(tx, workingSet);
  await storePrompts(tx, appended);
  await finish(
    tx,
    projectId,
    appended.filter(({ part }) => part.isLast),
  );
  await requestEmbedding(tx, projectId);
}

/**
 * Stores prompts that refer to the imported messages. Messages are deleted together with the last prompt that refers to
 * them, so without any prompt they would stay forever.
 *
 * We store a prompt for each response, with the id of its call, and one with a new id for the end of each chain.
 * Prompts that are already stored don't change.
 */
async function storePrompts(tx: Queries, appended: readonly AppendedPart[]): Promise<void> {
  const callIds = appended.flatMap(({ conversation }) => conversation.added.flatMap(({ callId }) => callId ?? []));
  const used = new Set(await findStoredCallIds(tx, callIds));
  const texts: CallText[] = [];
  const conversationIds = new Map<string, string>();
  for (const { id, projectId, subject, added } of appended.map(({ conversation }) => conversation)) {
    let turn: AppendedMessage[] = [];
    for (const [index, message] of added.entries()) {
      const { part, callId, createdAt } = message;
      turn.push(message);
      if (callId === null && added[index + 1]?.part.parentHash === part.hash) continue;
      const textId = callId === null || used.has(callId) ? newId(createdAt) : callId;
      used.add(textId);
      conversationIds.set(textId, id);
      const parts = turn.map((appended) => appended.part);
      const promptLength = callId === null ? parts.length : parts.length - 1;
      const startedAt = turn[0]?.createdAt ?? createdAt;
      texts.push({
        callId: textId,
        projectId,
        subject,
        startedAt,
        context: [],
        extras: [],
        parts,
        promptLength,
        recalled: [],
        recalledTokens: null,
        parameters: null,
      });
      turn = [];
    }
  }
  await storeTexts(tx, texts, conversationIds);
}

/** Closes the imported conversations, like `conversations/episodes.ts` does once a conversation is idle. */
async function finish(tx: Queries, projectId: string, appended: readonly AppendedPart[]): Promise<void> {
  if (appended.length === 0) return;
  const rows: Record<string, unknown>[] = [];
  for (const { part, conversation } of appended) {
    const { id, messages: count, added } = conversation;
    const messages = added.length === count ? added.map((message) => message.part.message) : await readMessages(tx, id, count);
    const { learnable, learned_messages: learned } = part.open.record;
    rows.push({ id, title: deriveTitle(messages), text: formatTranscript(messages), learnable, learned });
  }
  const waiting = await tx.query<{ waits: boolean }>(
    `update conversations
        set read_at = clock_timestamp(), title = new.title, text = new.text, learnable = new.learnable,
            batched_messages = least(new.learned, conversations.messages)
       from jsonb_to_recordset($1::jsonb) as new (id uuid, title text, text text, learnable boolean, learned integer)
      where conversations.id = new.id
     returning conversations.learnable and conversations.batched_messages < conversations.messages as waits`,
    [JSON.stringify(rows)],
  );
  if (waiting.some(({ waits }) => waits)) await triggerLearning(tx, projectId);
}
