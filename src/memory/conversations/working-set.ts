/**
 * The conversations that the calls of one batch may join, as loaded and as changed by the calls processed so far. Does not access the
 * database: `load-working-set.ts` and `save-working-set.ts` do.
 */
import { type ChainPart, hashKey, toScopedKey } from './chain.ts';

/** A recorded call that is being assigned to a conversation. */
export interface RecordedCall {
  readonly callId: string;
  readonly projectId: string;
  readonly source: string;
  readonly subject: string | null;
  readonly scope: Buffer;
  readonly explicitWrite: boolean;
  readonly startedAt: number;
  readonly endedAt: number;
  /** Messages of the request, then the response when there is one. */
  readonly parts: readonly ChainPart[];
  /** Lookup key of each part in the scope. */
  readonly scopedKeys: readonly Buffer[];
  readonly promptLength: number;
  /** Index of the first assistant message in the request, -1 for a call without history. */
  readonly firstAssistant: number;
}

/** A message that the batch appends to a conversation. */
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
  /** Message hashes by position, as far as they were loaded. */
  readonly messageHashes: Map<number, Buffer>;
  /** The row must be updated. */
  changed: boolean;
  /** The batch opened or reopened the conversation, so its idle timer must be started. */
  needsIdleTimer: boolean;
  readonly added: AppendedMessage[];
}

/** A position in a conversation that holds a given message. */
export interface MessageOccurrence {
  readonly conversation: Conversation;
  readonly position: number;
  callId: string | null;
}

export type ConversationWorkingSet = ReturnType<typeof createConversationWorkingSet>;

export function createConversationWorkingSet() {
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
    /** Adds a loaded conversation with the occurrences of messages at which calls of the batch end. */
    add(conversation: Conversation, occurrences: readonly { key: Buffer; position: number; callId: string | null }[]): void {
      index(conversation);
      for (const { key, position, callId } of occurrences) addOccurrence(key, { conversation, position, callId });
    },
    byTip: (key: Buffer) => [...(tipIndex.get(hashKey(key)) ?? [])],
    byLastMessage: (messageKey: Buffer) => [...(lastMessageIndex.get(hashKey(messageKey)) ?? [])],
    occurrencesOf: (key: Buffer): readonly MessageOccurrence[] => occurrenceIndex.get(hashKey(key)) ?? [],
    /** Open conversations of a scope. */
    openInScope: (scope: Buffer) => [...(scopeIndex.get(hashKey(scope)) ?? [])].filter((conversation) => conversation.state === 'stored'),
    /** Appends the messages of `call` from index `from` on. */
    append(conversation: Conversation, call: RecordedCall, from: number): void {
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
    /** Names the call that produced a response known so far only from a later request. */
    attributeResponse(occurrence: MessageOccurrence, call: RecordedCall): void {
      occurrence.callId = call.callId;
      const added = occurrence.conversation.added.find((part) => part.position === occurrence.position);
      if (added) added.callId = call.callId;
      else attributedResponses.push(occurrence);
    },
    all: () => conversations.values(),
    /** Attributed responses whose message is already in the database. */
    attributedResponses: (): readonly MessageOccurrence[] => attributedResponses,
  };
}

function addToIndex(keyedIndex: Map<string, Set<Conversation>>, key: Buffer, conversation: Conversation): void {
  const mapKey = hashKey(key);
  const set = keyedIndex.get(mapKey);
  if (set) set.add(conversation);
  else keyedIndex.set(mapKey, new Set([conversation]));
}
