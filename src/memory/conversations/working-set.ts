/**
 * The conversations that the calls of one batch may join, as they were in the database and as the batch changes them. Calls are placed one
 * after the other, so a call finds what the calls before it made. Nothing here reads or writes the database: `load-book.ts`
 * and `save-book.ts` do.
 */
import { type ChainPart, toScopedKey } from './chain.ts';

/** A recorded call on its way into a conversation. */
export interface RecordedCall {
  readonly callId: string;
  readonly projectId: string;
  readonly source: string;
  readonly subject: string | null;
  readonly scope: Buffer;
  readonly explicitWrite: boolean;
  readonly startedAt: number;
  readonly endedAt: number;
  /** Messages of the request, then the answer when there is one. */
  readonly parts: readonly ChainPart[];
  /** Of each part, its hash as it is looked up in the scope. */
  readonly scopedKeys: readonly Buffer[];
  readonly promptLength: number;
  /** Index of the first message of the assistant in the request, -1 when the call has no history. */
  readonly firstAssistant: number;
}

/** A message of a conversation that the batch adds. */
export interface AppendedMessage {
  readonly position: number;
  readonly part: ChainPart;
  readonly scopedKey: Buffer;
  readonly createdAt: number;
  callId: string | null;
}

export interface Conversation {
  readonly id: string;
  readonly projectId: string;
  readonly source: string;
  readonly subject: string | null;
  readonly scope: Buffer;
  readonly isNew: boolean;
  state: 'stored' | 'read';
  opened: number;
  learnable: boolean;
  calls: number;
  messages: number;
  startedAt: number;
  lastTurnAt: number;
  tipKey: Buffer;
  tipMessageKey: Buffer;
  /** Hashes of its messages by position, as far as they are known. */
  readonly messageHashes: Map<number, Buffer>;
  /** The batch changed its row. */
  changed: boolean;
  /** The batch opened it, for the first time or again: a workflow must wait for its end. */
  needsIdleTimer: boolean;
  readonly added: AppendedMessage[];
}

/** A message of a conversation that a call may stand at. */
export interface MessageOccurrence {
  readonly conversation: Conversation;
  readonly position: number;
  callId: string | null;
}

export interface ConversationWorkingSet {
  /** Takes in a conversation; `places` are those of its messages that calls of the batch asked for. */
  add(conversation: Conversation, occurrences: readonly { key: Buffer; position: number; callId: string | null }[]): void;
  byTip(key: Buffer): readonly Conversation[];
  byLastMessage(messageKey: Buffer): readonly Conversation[];
  occurrencesOf(key: Buffer): readonly MessageOccurrence[];
  /** Open conversations of a scope (project, source and subject). */
  openInScope(scope: Buffer): readonly Conversation[];
  /** Adds the messages of `turn` from index `from` on. */
  append(conversation: Conversation, call: RecordedCall, from: number): void;
  /** Names the recorded call that gave an answer known until now only from a later request. */
  attributeResponse(occurrence: MessageOccurrence, call: RecordedCall): void;
  all(): Iterable<Conversation>;
  /** Answers of messages that are in the database already. */
  attributedResponses(): readonly MessageOccurrence[];
}

export function createConversationWorkingSet(): ConversationWorkingSet {
  const conversations = new Map<string, Conversation>();
  const tipIndex = new Map<string, Set<Conversation>>();
  const lastMessageIndex = new Map<string, Set<Conversation>>();
  const occurrenceIndex = new Map<string, MessageOccurrence[]>();
  const scopeIndex = new Map<string, Set<Conversation>>();
  const attributedResponses: MessageOccurrence[] = [];

  const addOccurrence = (key: Buffer, occurrence: MessageOccurrence): void => {
    const mapKey = hashKey(key);
    const occurrences = occurrenceIndex.get(mapKey);
    if (occurrences) occurrences.push(occurrence);
    else occurrenceIndex.set(mapKey, [occurrence]);
  };

  const index = (conversation: Conversation): void => {
    conversations.set(conversation.id, conversation);
    addToIndex(tipIndex, conversation.tipKey, conversation);
    addToIndex(lastMessageIndex, conversation.tipMessageKey, conversation);
    addToIndex(scopeIndex, conversation.scope, conversation);
  };

  return {
    add(conversation, occurrences) {
      index(conversation);
      for (const { key, position, callId } of occurrences) addOccurrence(key, { conversation, position, callId });
    },
    byTip: (key) => [...(tipIndex.get(hashKey(key)) ?? [])],
    byLastMessage: (messageKey) => [...(lastMessageIndex.get(hashKey(messageKey)) ?? [])],
    occurrencesOf: (key) => occurrenceIndex.get(hashKey(key)) ?? [],
    openInScope: (scope) => [...(scopeIndex.get(hashKey(scope)) ?? [])].filter((conversation) => conversation.state === 'stored'),
    append(conversation, call, from) {
      tipIndex.get(hashKey(conversation.tipKey))?.delete(conversation);
      lastMessageIndex.get(hashKey(conversation.tipMessageKey))?.delete(conversation);
      for (let at = from; at < call.parts.length; at += 1) {
        const part = call.parts[at];
        const scopedKey = call.scopedKeys[at];
        if (!part || !scopedKey) continue;
        const isResponse = at >= call.promptLength;
        const callId = isResponse ? call.callId : null;
        const createdAt = isResponse ? call.endedAt : call.startedAt;
        conversation.added.push({ position: conversation.messages, part, scopedKey, createdAt, callId });
        addOccurrence(scopedKey, { conversation, position: conversation.messages, callId });
        conversation.messageHashes.set(conversation.messages, part.messageHash);
        conversation.messages += 1;
        conversation.tipKey = scopedKey;
        conversation.tipMessageKey = toScopedKey(call.scope, part.messageHash);
      }
      index(conversation);
    },
    attributeResponse(occurrence, call) {
      occurrence.callId = call.callId;
      const added = occurrence.conversation.added.find((part) => part.position === occurrence.position);
      if (added) added.callId = call.callId;
      else attributedResponses.push(occurrence);
    },
    all: () => conversations.values(),
    attributedResponses: () => attributedResponses,
  };
}

function addToIndex(keyedIndex: Map<string, Set<Conversation>>, key: Buffer, conversation: Conversation): void {
  const mapKey = hashKey(key);
  const set = keyedIndex.get(mapKey);
  if (set) set.add(conversation);
  else keyedIndex.set(mapKey, new Set([conversation]));
}

/** A hash as a key of a Map: one character for each byte. */
function hashKey(key: Buffer): string {
  return key.toString('latin1');
}
