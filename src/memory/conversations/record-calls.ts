/**
 * Stores the text of settled calls and assigns recorded calls to conversations. The journal drain runs this in the
 * transaction of a batch, so a call and its conversation become visible together.
 *
 * Calls are processed in the order in which they started. Batches that touch the same project exclude each other.
 * Otherwise two calls of one dialogue could be drained at the same time, and each would start its own conversation.
 * Activities read conversations without this lock, so we lock the rows as well.
 *
 * We skip calls whose text is already stored, so a batch can be delivered twice. An unreadable request is stored
 * without text, and no content can make this fail.
 */
import type { SettledCall } from '../../core/call.ts';
import { newId } from '../../core/ids.ts';
import { mapWithYields } from '../../core/map-with-yields.ts';
import { toPostgresText } from '../../core/postgres-text.ts';
import type { Queries } from '../../db/database.ts';
import { lockConversations } from '../../db/locks.ts';
import { readMemorySettings } from '../records/settings.ts';
import { defaultMemorySettings, isSourceRecorded } from '../records/settings-schema.ts';
import { createCredentialMasker } from '../text/credential-masker.ts';
import { type CallText, findStoredCallIds, storeTexts } from './call-texts.ts';
import { type ChainPart, hashScope, type Sha256, toScopedKey } from './chain.ts';
import { loadWorkingSet } from './load-working-set.ts';
import { type CallWithText, hasText, type MaskedText } from './masked-prompt.ts';
import { matchConversation } from './match-conversation.ts';
import { createPromptReader } from './prompt-reader.ts';
import { readParameters } from './request-parameters.ts';
import { saveWorkingSet } from './save-working-set.ts';
import { createTextReader } from './text-reader.ts';
import type { Conversation, ConversationWorkingSet, RecordedCall } from './working-set.ts';

/**
 * Stores the masked text of `calls` and assigns recorded calls to conversations. The caller has to run this in the
 * transaction that inserts the rows of the calls.
 */
export async function recordCalls(
  tx: Queries,
  calls: readonly SettledCall[],
  reader = createPromptReader(createCredentialMasker()),
): Promise<void> {
  const candidates = calls.filter(hasText).toSorted(compareByStart);
  if (candidates.length === 0) return;
  const projectIds = [...new Set(candidates.map((call) => call.metadata.projectId))];
  await lockConversations(tx, projectIds);
  const recordable = await findRecordable(tx, candidates);
  // Skip calls that are already stored. We only look this up for calls that can become part of a conversation, because
  // it does no harm to store the text of any other call twice.
  const stored = recordable.size === 0 ? recordable : await findStoredCallIds(tx, [...recordable]);
  const distinct = new Map(candidates.map((call) => [call.metadata.id, call]));
  const newCalls = [...distinct.values()].filter(({ metadata }) => !stored.has(metadata.id));
  const readText = createTextReader(reader);
  const texts = await mapWithYields(newCalls, (call) => toCallText(call, readText(call)));
  const recordedCalls: RecordedCall[] = [];
  for (const [index, call] of newCalls.entries()) {
    const text = texts[index];
    if (text && text.parts.length > 0 && recordable.has(call.metadata.id)) recordedCalls.push(toRecordedCall(call, text));
  }

  const conversationIds = new Map<string, string>();
  if (recordedCalls.length > 0) {
    const workingSet = await loadWorkingSet(tx, recordedCalls);
    for (const recorded of recordedCalls) conversationIds.set(recorded.callId, assignConversation(recorded, workingSet).id);
    await saveWorkingSet(tx, workingSet);
  }
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
    recalledTokens: content.recalledTokens ?? null,
    parameters: text.parameters === undefined ? readParameters(content.request) : text.parameters,
    context: text.context,
    extras: text.extras,
    parts: text.parts,
    promptLength: text.promptLength,
  };
}

/**
 * Selects the calls that belong in a conversation (docs/api/reference.md#memory-rules), without checking yet if they
 * have messages. If a call doesn't say whether to record it, the project's settings decide.
 */
async function findRecordable(tx: Queries, calls: readonly SettledCall[]): Promise<ReadonlySet<string>> {
  const possible = calls.filter(
    ({ metadata: { memory }, result }) => result.outcome === 'ok' && memory.mode !== 'off' && memory.isRecorded !== false,
  );
  const undecided = possible.filter(({ metadata }) => metadata.memory.isRecorded === undefined);
  const projectIds = [...new Set(undecided.map(({ metadata }) => metadata.projectId))];
  const settings = projectIds.length === 0 ? null : await readMemorySettings(tx, projectIds);
  const recordable = possible.filter(({ metadata: { projectId, memory, source, sourceGiven: hasExplicitSource } }) => {
    const projectSettings = settings?.get(projectId) ?? defaultMemorySettings;
    return memory.isRecorded ?? isSourceRecorded(projectSettings, { source, hasExplicitSource });
  });
  return new Set(recordable.map(({ metadata }) => metadata.id));
}

function toRecordedCall({ metadata, result }: SettledCall, { parts, promptLength, subject }: CallText): RecordedCall {
  const source = toPostgresText(metadata.source);
  const scope = hashScope(metadata.projectId, source, subject);
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
    keyAt: createKeys(scope, parts),
    promptLength,
    firstAssistant: parts.slice(0, promptLength).findIndex(({ role }) => role === 'assistant'),
  };
}

/**
 * Returns a function that computes the key of a part on demand. We usually need only the last few keys of a long
 * history.
 */
function createKeys(scope: Sha256, parts: readonly ChainPart[]): RecordedCall['keyAt'] {
  const keys: Sha256[] = [];
  return (index) => {
    const part = parts.at(index);
    if (!part) return undefined;
    const at = index < 0 ? parts.length + index : index;
    keys[at] ??= toScopedKey(scope, part.hash);
    return keys[at];
  };
}

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

/**
 * Adds a call to the conversation's count. With its second call, a conversation becomes learnable, i.e. memory may
 * learn from it. It's also learnable if it has a subject, or if one of its calls has explicitly asked for it.
 */
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

/**
 * If a conversation is still open this long after its last turn, we may have lost its idle timer, so we enqueue it
 * again. If the timer does exist, this has no effect.
 */
const idleTimerOverdueMs = 60 * 60_000;

const emptyKey: Sha256 = '';
