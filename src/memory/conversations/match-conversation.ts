/**
 * Decides which conversation a recorded call belongs to (docs/architecture/memory.md). Pure: reads the working set and changes nothing.
 *
 * Only an assistant message ties a call to a conversation of the same source and subject. The first matching rule wins:
 *
 * 1. Late call: a later request already contains its response.
 * 2. Continuation of the tip of an open conversation, the one with the longest common history.
 * 3. Repeat: the whole call is already part of an open conversation.
 * 4. Continuation of the tip of a read conversation, which is reopened.
 * 5. Call without history: the open conversation of its subject.
 * 6. Trimmed history: the request starts in the middle of a conversation and continues its tip.
 * 7. New conversation: no history, an unknown history, an edited message or a regenerated response.
 */

import { type ChainPart, type Sha256, toScopedKey } from './chain.ts';
import type { Conversation, ConversationWorkingSet, MessageOccurrence, RecordedCall } from './working-set.ts';

export type ConversationMatch =
  | { readonly kind: 'late'; readonly occurrence: MessageOccurrence }
  /** Messages of the call from index `from` on are new to the conversation. */
  | { readonly kind: 'continues'; readonly conversation: Conversation; readonly from: number }
  | { readonly kind: 'repeats'; readonly conversation: Conversation }
  | { readonly kind: 'opens' };

export function matchConversation(call: RecordedCall, workingSet: ConversationWorkingSet): ConversationMatch {
  const occurrences = occurrencesAtEnd(call, workingSet);
  const late = occurrences.find((occurrence) => isLate(call, occurrence));
  if (late) return { kind: 'late', occurrence: late };
  if (call.firstAssistant < 0) return matchOpenOfSubject(call, workingSet);

  const atTip = matchTip(call, workingSet);
  if (atTip?.conversation.state === 'stored') return atTip;
  const repeated = occurrences.find((occurrence) => occurrence.conversation.state === 'stored');
  if (repeated) return { kind: 'repeats', conversation: repeated.conversation };
  return atTip ?? matchTrimmed(call, workingSet) ?? { kind: 'opens' };
}

/**
 * Tips that `call` may continue, the likeliest first: one after each message of its request, back to the first assistant message.
 */
export function* getTipKeys(call: RecordedCall): Generator<Sha256, void> {
  if (call.firstAssistant < 0) return;
  for (let at = call.promptLength - 1; at >= call.firstAssistant; at -= 1) {
    const key = call.keyAt(at);
    if (key) yield key;
  }
}

/** Candidates compared with a trimmed history. */
export const maxComparedConversations = 10;

/**
 * Last messages of conversations that `call` may continue with a trimmed history: assistant messages of its request, the newest first. Each
 * costs a lookup, so only the newest hundred are tried.
 */
export function getTipMessageKeys(call: RecordedCall): Sha256[] {
  const prompt = call.parts.slice(0, call.promptLength).filter((part) => part.role === 'assistant');
  return prompt
    .slice(-maxTipMessages)
    .reverse()
    .map((part) => toScopedKey(call.scope, part.messageHash));
}

const maxTipMessages = 100;

function occurrencesAtEnd(call: RecordedCall, workingSet: ConversationWorkingSet): readonly MessageOccurrence[] {
  const key = call.keyAt(-1);
  return key ? workingSet.occurrencesOf(key) : [];
}

/**
 * A call without history is late only when it started before the whole conversation; otherwise it is an identical request that starts
 * another conversation.
 */
function isLate(call: RecordedCall, { callId, conversation }: MessageOccurrence): boolean {
  if (callId !== null || call.parts.length === call.promptLength) return false;
  return call.firstAssistant >= 0 || call.startedAt < conversation.startedAt;
}

function matchOpenOfSubject(call: RecordedCall, workingSet: ConversationWorkingSet): ConversationMatch {
  if (call.subject === null) return { kind: 'opens' };
  const open = findNewest(workingSet.openInScope(call.scope));
  return open ? { kind: 'continues', conversation: open, from: 0 } : { kind: 'opens' };
}

function matchTip(call: RecordedCall, workingSet: ConversationWorkingSet): (ConversationMatch & { kind: 'continues' }) | null {
  let from = call.promptLength;
  for (const key of getTipKeys(call)) {
    const ending = workingSet.byTip(key);
    const conversation = findNewest(ending.filter(({ state }) => state === 'stored')) ?? findNewest(ending);
    if (conversation) return { kind: 'continues', conversation, from };
    from -= 1;
  }
  return null;
}

/**
 * Finds the conversation whose end shares the longest run of messages with the request. Messages must be missing before the run; otherwise a
 * message was edited. Callers without a subject may be different users, so the whole request history must match, with a message of each
 * side, and in one conversation only.
 */
function matchTrimmed(call: RecordedCall, workingSet: ConversationWorkingSet): (ConversationMatch & { kind: 'continues' }) | null {
  const candidates = new Set<Conversation>();
  for (const key of getTipMessageKeys(call)) {
    // Conversations are indexed in id order, so the newest with this last message is last.
    for (const conversation of workingSet.byLastMessage(key).toReversed())
      if (candidates.size < maxComparedConversations) candidates.add(conversation);
  }
  let best: { conversation: Conversation; from: number; length: number } | null = null;
  let isAmbiguous = false;
  for (const conversation of candidates) {
    const run = findSharedRun(call, conversation);
    if (!run || run.length < (best?.length ?? 0)) continue;
    isAmbiguous = run.length === best?.length;
    if (!isAmbiguous || isNewer(conversation, best?.conversation)) best = { conversation, ...run };
  }
  if (!best || (isAmbiguous && call.subject === null)) return null;
  return { kind: 'continues', conversation: best.conversation, from: best.from };
}

/** Returns the longest run of request messages that ends with the conversation's last message: its end in the request, and its length. */
function findSharedRun(call: RecordedCall, conversation: Conversation): { from: number; length: number } | null {
  const { messages } = conversation;
  const request = call.parts.slice(0, call.promptLength);
  const lengths = commonSuffixLengths(
    request.map(({ messageHash }) => messageHash),
    lastMessageKeys(conversation, request.length),
  );
  const prefixLength = commonPrefixLength(request, conversation);
  let best: { from: number; length: number } | null = null;
  // Index of the latest message of each role up to the current end.
  const lastOf = { assistant: -1, user: -1 };
  for (const [index, part] of request.entries()) {
    lastOf[part.role] = index;
    const end = index + 1;
    const length = lengths[index] ?? 0;
    const start = end - length;
    if (end <= call.firstAssistant || lastOf.assistant < start || length < (best?.length ?? 1)) continue;
    // The request starts like the conversation, so nothing was trimmed: a message was edited.
    if (messages > end && prefixLength >= end) continue;
    const isWhole = start === 0;
    if (call.subject === null ? isWhole && lastOf.user >= start : isWhole || messages > end) best = { from: end, length };
  }
  return best;
}

/** Map keys of the last `count` messages; unknown messages get a key that equals no other. */
function lastMessageKeys({ messages, messageHashes }: Conversation, count: number): string[] {
  const first = Math.max(0, messages - count);
  return Array.from({ length: messages - first }, (_value, index) => messageHashes.get(first + index) ?? `unknown ${index}`);
}

/**
 * For each element of `list`, the length of the longest common suffix of the list up to that element and `tail`. Linear (Z function on the
 * reversed lists): a quadratic comparison of 8,000 equal messages took 1.4 seconds.
 */
function commonSuffixLengths(list: readonly string[], tail: readonly string[]): number[] {
  const reversed = [...tail.toReversed(), '', ...list.toReversed()];
  const lengths: number[] = [0];
  let [begin, end] = [0, 0];
  for (let at = 1; at < reversed.length; at += 1) {
    let length = at < end ? Math.min(end - at, lengths[at - begin] ?? 0) : 0;
    while (at + length < reversed.length && reversed[length] === reversed[at + length]) length += 1;
    if (at + length > end) [begin, end] = [at, at + length];
    lengths.push(length);
  }
  return lengths.slice(tail.length + 1).toReversed();
}

/** How many leading messages of the request equal the conversation's, as far as its hashes are known. */
function commonPrefixLength(request: readonly ChainPart[], { messageHashes }: Conversation): number {
  const other = request.findIndex(({ messageHash }, at) => (messageHashes.get(at) ?? messageHash) !== messageHash);
  return other < 0 ? request.length : other;
}

function findNewest(conversations: readonly Conversation[]): Conversation | undefined {
  let newest: Conversation | undefined;
  for (const conversation of conversations) if (isNewer(conversation, newest)) newest = conversation;
  return newest;
}

function isNewer(conversation: Conversation, than: Conversation | undefined): boolean {
  if (!than) return true;
  return conversation.lastTurnAt === than.lastTurnAt ? conversation.id > than.id : conversation.lastTurnAt > than.lastTurnAt;
}
