/**
 * Decides which conversation a recorded call belongs to (decisions 9, shapes 21 'Memory routes'). Pure: it looks into the book of a batch
 * and changes nothing.
 *
 * Only a message of the assistant ties a call to a conversation, in the same application and for the same subject. In this order:
 *
 * 1. It gives an answer that is known so far only from a later call of the conversation: a late call.
 * 2. Its request goes on from the tip of an open conversation; of several the one with the longest history in common.
 * 3. It stands wholly inside an open conversation: a repeated call.
 * 4. Its request goes on from the tip of a read conversation, which is opened again.
 * 5. Without history: the subject's open conversation.
 * 6. Its request begins in the middle of a conversation and goes on from its tip: the client dropped old messages.
 * 7. Else a new conversation: no history, another history, an edited or regenerated message.
 */

import { type ChainPart, toScopedKey } from './chain.ts';
import type { Conversation, ConversationWorkingSet, MessageOccurrence, RecordedCall } from './working-set.ts';

export type ConversationMatch =
  | { readonly kind: 'late'; readonly occurrence: MessageOccurrence }
  /** The messages of the call from index `from` on are new to the conversation. */
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

/** Where a conversation ends that `turn` may go on from: after each message of its request, from the first of the assistant on. */
export function getTipKeys(call: RecordedCall): readonly Buffer[] {
  return call.firstAssistant < 0 ? [] : call.scopedKeys.slice(call.firstAssistant, call.promptLength);
}

/** Conversations that are compared with a call's trimmed history. */
export const maxComparedConversations = 10;

/**
 * Messages of the assistant that a conversation may end with which `turn` goes on from without having all of its history, the newest
 * first. Each costs a lookup, and nobody goes on with a conversation that ended a hundred answers ago.
 */
export function getTipMessageKeys(call: RecordedCall): Buffer[] {
  const prompt = call.parts.slice(0, call.promptLength).filter((part) => part.message.role === 'assistant');
  return prompt
    .slice(-maxTipMessages)
    .reverse()
    .map((part) => toScopedKey(call.scope, part.messageHash));
}

const maxTipMessages = 100;

function occurrencesAtEnd(call: RecordedCall, workingSet: ConversationWorkingSet): readonly MessageOccurrence[] {
  const key = call.scopedKeys.at(-1);
  return key ? workingSet.occurrencesOf(key) : [];
}

/**
 * A call without history is late only when it began before all that is known of the conversation: another one that asks the same
 * begins a conversation of its own.
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
  const keys = getTipKeys(call);
  for (let at = keys.length - 1; at >= 0; at -= 1) {
    const key = keys[at];
    const ending = key ? workingSet.byTip(key) : [];
    const conversation = findNewest(ending.filter(({ state }) => state === 'stored')) ?? findNewest(ending);
    if (conversation) return { kind: 'continues', conversation, from: call.firstAssistant + at + 1 };
  }
  return null;
}

/**
 * The longest run of messages that the request shares with the end of a conversation. Messages must be missing before it, else a
 * message was edited. Nobody knows whether two callers without a subject are the same, so without one the whole history must be in the
 * conversation, with a message of each side, and in no other.
 */
function matchTrimmed(call: RecordedCall, workingSet: ConversationWorkingSet): (ConversationMatch & { kind: 'continues' }) | null {
  const candidates = new Set<Conversation>();
  for (const key of getTipMessageKeys(call)) {
    // Of those that end alike the newest come last: they were read or opened in the order of their ids.
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

/** The run of the request that ends at the conversation's tip: where it ends in the request, and how long it is. */
function findSharedRun(call: RecordedCall, conversation: Conversation): { from: number; length: number } | null {
  const { messages } = conversation;
  const request = call.parts.slice(0, call.promptLength);
  const lengths = commonSuffixLengths(
    request.map((part) => hashKey(part.messageHash)),
    lastMessageKeys(conversation, request.length),
  );
  const prefixLength = commonPrefixLength(request, conversation);
  let best: { from: number; length: number } | null = null;
  // The nearest message of each role before the end at which the run is looked at.
  const lastOf = { assistant: -1, user: -1 };
  for (const [index, part] of request.entries()) {
    lastOf[part.message.role] = index;
    const end = index + 1;
    const length = lengths[index] ?? 0;
    const start = end - length;
    if (end <= call.firstAssistant || lastOf.assistant < start || length < (best?.length ?? 1)) continue;
    // Nothing is missing when the request's first messages are the conversation's first: it leaves the chain after them.
    if (messages > end && prefixLength >= end) continue;
    const isWhole = start === 0;
    if (call.subject === null ? isWhole && lastOf.user >= start : isWhole || messages > end) best = { from: end, length };
  }
  return best;
}

/** Names of the conversation's last `count` messages; those that are unknown equal no other. */
function lastMessageKeys({ messages, messageHashes }: Conversation, count: number): string[] {
  const first = Math.max(0, messages - count);
  return Array.from({ length: messages - first }, (_value, index) => {
    const hash = messageHashes.get(first + index);
    return hash ? hashKey(hash) : `unknown ${index}`;
  });
}

/**
 * For each element of `list`, how many up to and with it are the last of `tail`. In linear time (the Z function, from behind): compared
 * one by one, a request of 8,000 equal messages took 1.4 seconds.
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

/** How many of the request's first messages stand at the same place in the conversation, as far as that is known. */
function commonPrefixLength(request: readonly ChainPart[], { messageHashes }: Conversation): number {
  const other = request.findIndex(({ messageHash }, at) => messageHashes.get(at)?.equals(messageHash) === false);
  return other < 0 ? request.length : other;
}

function hashKey(hash: Buffer): string {
  return hash.toString('latin1');
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
