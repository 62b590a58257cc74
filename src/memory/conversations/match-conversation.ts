/**
 * Decides which conversation a recorded call belongs to (docs/architecture/memory.md). Pure function of the call and
 * the working set.
 *
 * Only an assistant message ties a call to a conversation of the same source and subject. The first rule that matches
 * wins:
 *
 * 1. Late call: a later request already contains its response.
 * 2. Continuation: the request continues the tip of an open conversation. We pick the one with the longest common
 *    history.
 * 3. Repeat: the whole call is already part of an open conversation.
 * 4. Reopening: the request continues the tip of a closed conversation.
 * 5. Call without history: it joins the open conversation of its subject.
 * 6. Trimmed history: the request starts in the middle of a conversation and continues its tip.
 * 7. New conversation: there's no history, we don't know it, a message was edited, or a response was regenerated.
 */

import { type ChainPart, type Sha256, toScopedKey } from './chain.ts';
import type { Conversation, ConversationWorkingSet, MessageOccurrence, RecordedCall } from './working-set.ts';

export type ConversationMatch =
  | { readonly kind: 'late'; readonly occurrence: MessageOccurrence }
  /** `from` is the index of the first message that isn't in the conversation yet. */
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
 * Yields the keys of the conversations that a call may continue, likeliest first. A conversation may end with any
 * message of the request, as long as that isn't before the first assistant message.
 */
export function* getTipKeys(call: RecordedCall): Generator<Sha256, void> {
  if (call.firstAssistant < 0) return;
  for (let at = call.promptLength - 1; at >= call.firstAssistant; at -= 1) {
    const key = call.keyAt(at);
    if (key) yield key;
  }
}

export const maxComparedConversations = 10;

/**
 * Returns the lookup keys of the assistant messages in a request, newest first. If a client has trimmed the history, we
 * look for a conversation that ends with one of these messages. Each key costs a lookup, so we only use the newest
 * hundred.
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
 * Checks whether a call arrives late, i.e. whether a later request has already added its messages to the conversation.
 *
 * Several conversations often start with the same message. So if the call has no history, we only assume that it's late
 * if it started before the conversation did. Otherwise it opens a new conversation.
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
 * Finds the conversation whose end has the most messages in common with the request. If the request has other messages
 * before those, one of them must have been edited, so it's not a match.
 *
 * Calls without a subject may come from different users. So they only match if the whole history of the request is part
 * of the conversation, if that includes at least one message of each role, and if no other conversation matches.
 */
function matchTrimmed(call: RecordedCall, workingSet: ConversationWorkingSet): (ConversationMatch & { kind: 'continues' }) | null {
  const candidates = new Set<Conversation>();
  for (const key of getTipMessageKeys(call)) {
    // The conversations are in the order of their ids, so go through them backwards to prefer the newest ones.
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

/**
 * Finds the longest run of messages that the request and the end of the conversation have in common. `from` is the
 * index in the request of the first message after the run.
 */
function findSharedRun(call: RecordedCall, conversation: Conversation): { from: number; length: number } | null {
  const { messages } = conversation;
  const request = call.parts.slice(0, call.promptLength);
  const lengths = commonSuffixLengths(
    request.map(({ messageHash }) => messageHash),
    lastMessageKeys(conversation, request.length),
  );
  const prefixLength = commonPrefixLength(request, conversation);
  let best: { from: number; length: number } | null = null;
  const lastOf = { assistant: -1, user: -1 };
  for (const [index, part] of request.entries()) {
    lastOf[part.role] = index;
    const end = index + 1;
    const length = lengths[index] ?? 0;
    const start = end - length;
    if (end <= call.firstAssistant || lastOf.assistant < start || length < (best?.length ?? 1)) continue;
    // If the request and the conversation are the same from the start up to here, the client hasn't trimmed the
    // history. It has edited a message, so this isn't a match.
    if (messages > end && prefixLength >= end) continue;
    const isWhole = start === 0;
    if (call.subject === null ? isWhole && lastOf.user >= start : isWhole || messages > end) best = { from: end, length };
  }
  return best;
}

/** Returns the hashes of the last `count` messages. A message that isn't loaded gets a unique placeholder. */
function lastMessageKeys({ messages, messageHashes }: Conversation, count: number): string[] {
  const first = Math.max(0, messages - count);
  return Array.from({ length: messages - first }, (_value, index) => messageHashes.get(first + index) ?? `unknown ${index}`);
}

/**
 * Returns, for each element of `list`, the length of the longest common suffix of `tail` and the list up to that
 * element. This uses the Z function on the reversed lists, which takes linear time. A quadratic comparison of 8,000
 * equal messages took 1.4 seconds.
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

/**
 * Counts how many messages at the start of the request are the same as in the conversation. A message whose hash we
 * haven't loaded counts as equal.
 */
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
