/**
 * Stores the text of settled calls and files the recorded ones under conversations (decisions 9). Called by the journal's drain inside the
 * transaction of a batch, so that a call and its conversation are there together or not at all.
 *
 * Calls of a batch are placed in the order in which they began. Batches of several processes that touch the same project wait for each
 * other here: two calls of one dialogue, drained at the same time by two processes, would otherwise not see each other and open two
 * conversations. Rows of conversations are locked besides, since activities read them.
 *
 * A call whose text is stored already is skipped, so delivering a batch twice changes nothing. A request that cannot be read is stored
 * without text; no content makes this fail.
 */
import type { SettledCall } from '../../core/call.ts';
import { newId } from '../../core/ids.ts';
import { parseJson } from '../../core/json/narrow.ts';
import { makeStorable } from '../../core/postgres-text.ts';
import type { Queries } from '../../db/database.ts';
import { type NormalMessage, normalMessage, type PromptRoute, readPrompt } from '../../dialects/prompt/prompt.ts';
import { defaultMemorySettings, type MemorySettings, readMemorySettings, recordsCallsOf } from '../records/settings.ts';
import { type CallMasker, createCallMasker } from '../text/credential-masker.ts';
import { type CallText, findStored, storeTexts } from './call-texts.ts';
import { chainMessages, hashScope, keyInScope } from './chain.ts';
import { loadBook } from './load-working-set.ts';
import { findConversation } from './match-conversation.ts';
import { saveBook } from './save-working-set.ts';
import type { Book, Conversation, Turn } from './working-set.ts';

/** Stores the texts of `calls` (those the batch newly stored), without credentials, and joins or opens conversations for the recorded ones. */
export async function recordCalls(tx: Queries, calls: readonly SettledCall[], masker = createCallMasker()): Promise<void> {
  const candidates = calls.filter(hasText).toSorted(byStart);
  if (candidates.length === 0) return;
  const projectIds = [...new Set(candidates.map((call) => call.facts.projectId))].toSorted();
  await takeProjects(tx, projectIds);
  const settings = await readMemorySettings(tx, projectIds);
  const ids = candidates.map((call) => call.facts.id);
  const stored = await findStored(tx, ids);
  const fresh = candidates.filter((call, index) => !stored.has(call.facts.id) && ids.indexOf(call.facts.id) === index);
  const read = fresh.map((call) => ({ call, text: readText(call, masker) }));
  const turns = read
    .filter(({ call, text }) => isRecorded(call, text, settings.get(call.facts.projectId) ?? defaultMemorySettings))
    .map(({ call, text }) => toTurn(call, text));

  const conversationOf = new Map<string, string>();
  if (turns.length > 0) {
    const book = await loadBook(tx, turns);
    for (const turn of turns) conversationOf.set(turn.callId, join(turn, book).id);
    await saveBook(tx, book);
  }
  if (read.length > 0)
    await storeTexts(
      tx,
      read.map(({ text }) => text),
      conversationOf,
    );
}

type CallWithText = SettledCall & { readonly content: NonNullable<SettledCall['content']> };

function hasText(call: SettledCall): call is CallWithText {
  return call.content !== null && promptRoute(call) !== null;
}

function promptRoute({ facts: { route } }: SettledCall): PromptRoute | null {
  return route === 'chat' || route === 'messages' || route === 'responses' ? route : null;
}

function byStart(a: SettledCall, b: SettledCall): number {
  return a.facts.startedAt - b.facts.startedAt || (a.facts.id < b.facts.id ? -1 : 1);
}

/** Nobody else changes conversations and stored messages of these projects until the transaction ends. One statement, in the order of ids (a lock is taken as its row comes out of the sort), so that batches with several projects never wait for each other in a circle. */
export async function takeProjects(tx: Queries, projectIds: readonly string[]): Promise<void> {
  await tx.query(
    `select pg_advisory_xact_lock(hashtextextended('conversations ' || project_id, 0))
       from unnest($1::text[]) with ordinality as project (project_id, position)
      order by position`,
    [projectIds],
  );
}

function readText(call: CallWithText, masker: CallMasker): CallText {
  const { facts, content } = call;
  const { messages, extras, answerBegun } = readPrompt(promptRoute(call) ?? 'chat', parseJson(content.request.toString('utf8')));
  const begun = answerBegun ? messages.at(-1) : undefined;
  const prompt = begun && content.answer ? messages.slice(0, -1) : messages;
  const answer = content.answer ? normalMessage('assistant', { ...content.answer, text: (begun?.text ?? '') + content.answer.text }) : null;
  return {
    callId: facts.id,
    projectId: facts.projectId,
    subject: facts.memory.subject === null ? null : makeStorable(facts.memory.subject),
    startedAt: facts.startedAt,
    extras: extras.map(masker.extra),
    parts: chainMessages([...prompt, ...(answer ? [answer] : [])].map(masker.message)),
    promptLength: prompt.length,
    recalled: content.recalled ?? [],
  };
}

/** Specification 4.8 rule 3. */
function isRecorded({ facts, result }: SettledCall, text: CallText, settings: MemorySettings): boolean {
  if (result.outcome !== 'ok' || facts.memory.mode === 'off' || text.parts.length === 0) return false;
  return recordsCallsOf(settings, facts);
}

function toTurn({ facts, result }: SettledCall, { parts, promptLength, subject }: CallText): Turn {
  const source = makeStorable(facts.source);
  const scope = hashScope(facts.projectId, source, subject);
  const isAssistant = ({ message }: { message: NormalMessage }): boolean => message.role === 'assistant';
  return {
    callId: facts.id,
    projectId: facts.projectId,
    source,
    subject,
    scope,
    explicitWrite: facts.memory.explicitWrite,
    startedAt: facts.startedAt,
    endedAt: facts.startedAt + result.durationMs,
    parts,
    placeKeys: parts.map((part) => keyInScope(scope, part.hash)),
    promptLength,
    firstAssistant: parts.slice(0, promptLength).findIndex(isAssistant),
  };
}

/** Files `turn` under its conversation in the book and returns that. */
function join(turn: Turn, book: Book): Conversation {
  const joining = findConversation(turn, book);
  const isRepeat = joining.kind === 'repeats' || (joining.kind === 'continues' && joining.from === turn.parts.length);
  if (joining.kind === 'opens') return countCall(openConversation(turn, book), turn);
  if (joining.kind === 'late') {
    book.answer(joining.place, turn);
    return countCall(joining.place.conversation, turn);
  }
  const { conversation } = joining;
  if (isRepeat) return noteWrite(conversation, turn);
  if (joining.kind === 'continues') {
    if (conversation.state === 'read') reopen(conversation);
    else if (turn.startedAt - conversation.lastTurnAt > overdueMs) conversation.openedNow = true;
    book.append(conversation, turn, joining.from);
    conversation.lastTurnAt = Math.max(conversation.lastTurnAt, turn.endedAt);
  }
  return countCall(conversation, turn);
}

function openConversation(turn: Turn, book: Book): Conversation {
  const conversation: Conversation = {
    id: newId(turn.startedAt),
    projectId: turn.projectId,
    source: turn.source,
    subject: turn.subject,
    scope: turn.scope,
    isNew: true,
    state: 'stored',
    opened: 1,
    learnable: turn.subject !== null,
    calls: 0,
    messages: 0,
    startedAt: turn.startedAt,
    lastTurnAt: turn.endedAt,
    tipKey: noKey,
    tipMessageKey: noKey,
    messageHashes: new Map(),
    changed: true,
    openedNow: true,
    added: [],
  };
  book.append(conversation, turn, 0);
  return conversation;
}

function reopen(conversation: Conversation): void {
  conversation.state = 'stored';
  conversation.opened += 1;
  conversation.openedNow = true;
}

/** Counts a recorded call. More than one, or an explicit wish, makes the conversation one to learn from (specification 3). */
function countCall(conversation: Conversation, turn: Turn): Conversation {
  conversation.calls += 1;
  conversation.startedAt = Math.min(conversation.startedAt, turn.startedAt);
  conversation.learnable ||= conversation.calls > 1;
  conversation.changed = true;
  return noteWrite(conversation, turn);
}

function noteWrite(conversation: Conversation, turn: Turn): Conversation {
  if (turn.explicitWrite && !conversation.learnable) {
    conversation.learnable = true;
    conversation.changed = true;
  }
  return conversation;
}

/** Unread for so long after a turn, its run may be gone: somebody ended it in Temporal. Asking for one that is there changes nothing. */
const overdueMs = 60 * 60_000;

const noKey = Buffer.alloc(0);
