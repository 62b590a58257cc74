/**
 * Stores the text of settled calls and assigns recorded calls to conversations. The journal drain calls it in the transaction of a batch, so
 * a call and its conversation become visible together.
 *
 * Calls are processed in the order in which they started. Batches of different processes that touch the same project exclude each other:
 * otherwise two calls of one dialogue, drained concurrently, would each start a conversation. Activities read conversations outside of that
 * lock, so their rows are locked too.
 *
 * Calls with a stored text are skipped, so a batch may be delivered twice. An unreadable request is stored without text; no content makes
 * this fail.
 */
import type { SettledCall } from '../../core/call.ts';
import { newId } from '../../core/ids.ts';
import { mapInTurns } from '../../core/map-in-turns.ts';
import { toPostgresText } from '../../core/postgres-text.ts';
import type { Queries } from '../../db/database.ts';
import { lockConversations } from '../../db/locks.ts';
import type { NormalMessage } from '../../dialects/prompt/prompt.ts';
import { defaultMemorySettings, isSourceRecorded, type MemorySettings, readMemorySettings } from '../records/settings.ts';
import { createCredentialMasker } from '../text/credential-masker.ts';
import { type CallText, findStoredCallIds, storeTexts } from './call-texts.ts';
import { hashScope, type Sha256, toScopedKey } from './chain.ts';
import { loadWorkingSet } from './load-working-set.ts';
import { matchConversation } from './match-conversation.ts';
import { saveWorkingSet } from './save-working-set.ts';
import { type CallWithText, createTextReader, hasText, type MaskedText } from './text-reader.ts';
import type { Conversation, ConversationWorkingSet, RecordedCall } from './working-set.ts';

/** Stores the masked texts of `calls`, which the batch newly stored, and assigns the recorded ones to conversations. */
export async function recordCalls(tx: Queries, calls: readonly SettledCall[], masker = createCredentialMasker()): Promise<void> {
  const candidates = calls.filter(hasText).toSorted(compareByStart);
  if (candidates.length === 0) return;
  const projectIds = [...new Set(candidates.map((call) => call.metadata.projectId))];
  await lockConversations(tx, projectIds);
  const undecided = candidates.filter(({ metadata }) => metadata.memory.isRecorded === undefined);
  const settings = await readMemorySettings(tx, [...new Set(undecided.map(({ metadata }) => metadata.projectId))]);
  const stored = await findStoredCallIds(
    tx,
    candidates.map(({ metadata }) => metadata.id),
  );
  const distinct = new Map(candidates.map((call) => [call.metadata.id, call]));
  const newCalls = [...distinct.values()].filter(({ metadata }) => !stored.has(metadata.id));
  const readText = createTextReader(masker);
  const extracted = await mapInTurns(newCalls, (call) => ({ call, text: toCallText(call, readText(call)) }));
  const recordedCalls = extracted
    .filter(({ call, text }) => isRecorded(call, text, settings.get(call.metadata.projectId) ?? defaultMemorySettings))
    .map(({ call, text }) => toRecordedCall(call, text));

  const conversationIds = new Map<string, string>();
  if (recordedCalls.length > 0) {
    const workingSet = await loadWorkingSet(tx, recordedCalls);
    for (const recorded of recordedCalls) conversationIds.set(recorded.callId, assignConversation(recorded, workingSet).id);
    await saveWorkingSet(tx, workingSet);
  }
  const texts = extracted.map(({ text }) => text);
  await storeTexts(tx, texts, conversationIds);
}

function compareByStart(a: SettledCall, b: SettledCall): number {
  return a.metadata.startedAt - b.metadata.startedAt || (a.metadata.id < b.metadata.id ? -1 : 1);
}

function toCallText({ metadata, content }: CallWithText, text: MaskedText): CallText {
  return {
    callId: metadata.id,
    projectId: metadata.projectId,
    subject: metadata.memory.subject === null ? null : toPostgresText(metadata.memory.subject),
    startedAt: metadata.startedAt,
    recalled: content.recalled ?? [],
    ...text,
  };
}

/** Whether the call becomes part of a conversation (docs/api/reference.md#memory-rules). `settings` decide only where the call does not say. */
function isRecorded({ metadata, result }: SettledCall, text: CallText, settings: MemorySettings): boolean {
  if (result.outcome !== 'ok' || metadata.memory.mode === 'off' || text.parts.length === 0) return false;
  return metadata.memory.isRecorded ?? isSourceRecorded(settings, metadata);
}

function toRecordedCall({ metadata, result }: SettledCall, { parts, promptLength, subject }: CallText): RecordedCall {
  const source = toPostgresText(metadata.source);
  const scope = hashScope(metadata.projectId, source, subject);
  const isAssistant = ({ message }: { message: NormalMessage }): boolean => message.role === 'assistant';
  return {
    callId: metadata.id,
    projectId: metadata.projectId,
    source,
    subject,
    scope,
    explicitWrite: metadata.memory.explicitWrite,
    startedAt: metadata.startedAt,
    endedAt: metadata.startedAt + result.durationMs,
    trace: metadata.trace,
    parts,
    scopedKeys: parts.map((part) => toScopedKey(scope, part.hash)),
    promptLength,
    firstAssistant: parts.slice(0, promptLength).findIndex(isAssistant),
  };
}

/** Adds the call to its conversation in the working set and returns the conversation. */
function assignConversation(call: RecordedCall, workingSet: ConversationWorkingSet): Conversation {
  const match = matchConversation(call, workingSet);
  if (match.kind === 'opens') return countCall(openConversation(call, workingSet), call);
  if (match.kind === 'repeats') return markLearnable(match.conversation, call);
  if (match.kind === 'late') {
    workingSet.attributeResponse(match.occurrence, call);
    return countCall(match.occurrence.conversation, call);
  }
  const { conversation, from } = match;
  if (from === call.parts.length) return markLearnable(conversation, call);
  if (conversation.state === 'read') reopen(conversation, call);
  else if (call.startedAt - conversation.lastTurnAt > idleTimerOverdueMs) requestIdleTimer(conversation, call);
  workingSet.append(conversation, call, from);
  conversation.lastTurnAt = Math.max(conversation.lastTurnAt, call.endedAt);
  return countCall(conversation, call);
}

function openConversation(call: RecordedCall, workingSet: ConversationWorkingSet): Conversation {
  const conversation: Conversation = {
    id: newId(call.startedAt),
    projectId: call.projectId,
    source: call.source,
    subject: call.subject,
    scope: call.scope,
    isNew: true,
    state: 'stored',
    opened: 1,
    learnable: call.subject !== null,
    calls: 0,
    messages: 0,
    startedAt: call.startedAt,
    lastTurnAt: call.endedAt,
    tipKey: emptyKey,
    tipMessageKey: emptyKey,
    messageHashes: new Map(),
    changed: true,
    needsIdleTimer: true,
    trace: call.trace,
    added: [],
  };
  workingSet.append(conversation, call, 0);
  return conversation;
}

function reopen(conversation: Conversation, call: RecordedCall): void {
  conversation.state = 'stored';
  conversation.opened += 1;
  requestIdleTimer(conversation, call);
}

function requestIdleTimer(conversation: Conversation, { trace }: RecordedCall): void {
  conversation.needsIdleTimer = true;
  conversation.trace = trace;
}

/** Counts a recorded call. A second call or an explicit write makes the conversation learnable. */
function countCall(conversation: Conversation, call: RecordedCall): Conversation {
  conversation.calls += 1;
  conversation.startedAt = Math.min(conversation.startedAt, call.startedAt);
  conversation.learnable ||= conversation.calls > 1;
  conversation.changed = true;
  return markLearnable(conversation, call);
}

function markLearnable(conversation: Conversation, call: RecordedCall): Conversation {
  if (call.explicitWrite && !conversation.learnable) {
    conversation.learnable = true;
    conversation.changed = true;
  }
  return conversation;
}

/** A conversation still unread this long after a turn may have lost its idle timer; enqueueing an existing timer has no effect. */
const idleTimerOverdueMs = 60 * 60_000;

const emptyKey: Sha256 = '';
