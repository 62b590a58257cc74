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
import type { Book, Conversation, Place, Turn } from './book.ts';
import { keyInScope } from './chain.ts';

export type Joining =
  | { readonly kind: 'late'; readonly place: Place }
  /** The messages of the call from index `from` on are new to the conversation. */
  | { readonly kind: 'continues'; readonly conversation: Conversation; readonly from: number }
  | { readonly kind: 'repeats'; readonly conversation: Conversation }
  | { readonly kind: 'opens' };

export function findConversation(turn: Turn, book: Book): Joining {
  const places = placesOf(turn, book);
  const late = places.find((place) => isLate(turn, place));
  if (late) return { kind: 'late', place: late };
  if (turn.firstAssistant < 0) return joinOpenOfSubject(turn, book);

  const atTip = findAtTip(turn, book);
  if (atTip?.conversation.state === 'stored') return atTip;
  const repeated = places.find((place) => place.conversation.state === 'stored');
  if (repeated) return { kind: 'repeats', conversation: repeated.conversation };
  return atTip ?? findTrimmed(turn, book) ?? { kind: 'opens' };
}

/** Where a conversation ends that `turn` may go on from: after each message of its request, from the first of the assistant on. */
export function tipKeysOf(turn: Turn): readonly Buffer[] {
  return turn.firstAssistant < 0 ? [] : turn.placeKeys.slice(turn.firstAssistant, turn.promptLength);
}

/** Messages of the assistant that a conversation may end with which `turn` goes on from without having all of its history. */
export function tipMessageKeysOf(turn: Turn): Buffer[] {
  const prompt = turn.parts.slice(0, turn.promptLength).filter((part) => part.message.role === 'assistant');
  return prompt.map((part) => keyInScope(turn.scope, part.messageHash));
}

function placesOf(turn: Turn, book: Book): readonly Place[] {
  const key = turn.placeKeys.at(-1);
  return key ? book.placesAt(key) : [];
}

/**
 * A call without history is late only when it began before all that is known of the conversation: another one that asks the same
 * begins a conversation of its own.
 */
function isLate(turn: Turn, { callId, conversation }: Place): boolean {
  if (callId !== null || turn.parts.length === turn.promptLength) return false;
  return turn.firstAssistant >= 0 || turn.startedAt < conversation.startedAt;
}

function joinOpenOfSubject(turn: Turn, book: Book): Joining {
  if (turn.subject === null) return { kind: 'opens' };
  const open = newestOf(book.openIn(turn.scope));
  return open ? { kind: 'continues', conversation: open, from: 0 } : { kind: 'opens' };
}

function findAtTip(turn: Turn, book: Book): (Joining & { kind: 'continues' }) | null {
  const keys = tipKeysOf(turn);
  for (let at = keys.length - 1; at >= 0; at -= 1) {
    const key = keys[at];
    const ending = key ? book.endingAt(key) : [];
    const conversation = newestOf(ending.filter(({ state }) => state === 'stored')) ?? newestOf(ending);
    if (conversation) return { kind: 'continues', conversation, from: turn.firstAssistant + at + 1 };
  }
  return null;
}

/**
 * The longest run of messages that the request shares with the end of a conversation. Messages must be missing before it, else a
 * message was edited. Nobody knows whether two callers without a subject are the same, so without one the whole history must be in the
 * conversation, with a message of each side, and in no other.
 */
function findTrimmed(turn: Turn, book: Book): (Joining & { kind: 'continues' }) | null {
  const candidates = new Set(tipMessageKeysOf(turn).flatMap((key) => book.endingWith(key)));
  let best: { conversation: Conversation; from: number; length: number } | null = null;
  let isAmbiguous = false;
  for (const conversation of candidates) {
    const run = findRun(turn, conversation);
    if (!run || run.length < (best?.length ?? 0)) continue;
    isAmbiguous = run.length === best?.length;
    if (!isAmbiguous || isNewer(conversation, best?.conversation)) best = { conversation, ...run };
  }
  if (!best || (isAmbiguous && turn.subject === null)) return null;
  return { kind: 'continues', conversation: best.conversation, from: best.from };
}

/** Two histories of thousands of equal messages would be compared at each of their ends; nobody's real one needs so many looks. */
const mostCompared = 100_000;

/** The run of the request that ends at the conversation's tip: where it ends in the request, and how long it is. */
function findRun(turn: Turn, conversation: Conversation): { from: number; length: number } | null {
  const { messages, messageHashes } = conversation;
  let best: { from: number; length: number } | null = null;
  let compared = 0;
  for (let end = turn.promptLength; end > turn.firstAssistant && compared < mostCompared; end -= 1) {
    let length = 0;
    while (length < end && isAt(turn, end - 1 - length, messageHashes.get(messages - 1 - length))) length += 1;
    compared += length + 1;
    const roles = turn.parts.slice(end - length, end).map((part) => part.message.role);
    if (!roles.includes('assistant') || length <= (best?.length ?? 0) || standsInPlace(turn, end, conversation)) continue;
    const isWhole = length === end;
    if (turn.subject === null ? isWhole && roles.includes('user') : isWhole || messages > end) best = { from: end, length };
  }
  return best;
}

/** The request's first `end` messages are the conversation's first, so nothing is missing: the request leaves the chain after them. */
function standsInPlace(turn: Turn, end: number, { messages, messageHashes }: Conversation): boolean {
  if (messages <= end) return false;
  for (let at = 0; at < end; at += 1) {
    const known = messageHashes.get(at);
    if (known && !isAt(turn, at, known)) return false;
  }
  return true;
}

function isAt(turn: Turn, index: number, messageHash: Buffer | undefined): boolean {
  return messageHash !== undefined && turn.parts[index]?.messageHash.equals(messageHash) === true;
}

function newestOf(conversations: readonly Conversation[]): Conversation | undefined {
  let newest: Conversation | undefined;
  for (const conversation of conversations) if (isNewer(conversation, newest)) newest = conversation;
  return newest;
}

function isNewer(conversation: Conversation, than: Conversation | undefined): boolean {
  if (!than) return true;
  return conversation.lastTurnAt === than.lastTurnAt ? conversation.id > than.id : conversation.lastTurnAt > than.lastTurnAt;
}
