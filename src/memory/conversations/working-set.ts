/**
 * The conversations that the calls of one batch may join, as loaded and as changed by the calls processed so far. Does not access the
 * database: `load-working-set.ts` and `save-working-set.ts` do.
 */
import { type ChainPart, type Sha256, toScopedKey } from './chain.ts';

/** A recorded call that is being assigned to a conversation. */
export interface RecordedCall {
  readonly callId: string;
  readonly projectId: string;
  readonly source: string;
  readonly subject: string | null;
  readonly scope: Sha256;
  readonly explicitWrite: boolean;
  readonly startedAt: number;
  readonly endedAt: number;
  /** Trace context of a sampled call. */
  readonly trace?: string | undefined;
  /** Messages of the request, then the response when there is one. */
  readonly parts: readonly ChainPart[];
  /** Lookup key of a part in the scope; negative indexes count from the end. Undefined if there is no such part. */
  readonly keyAt: (index: number) => Sha256 | undefined;
  readonly promptLength: number;
  /** Index of the first assistant message in the request, -1 for a call without history. */
  readonly firstAssistant: number;
}

/** A message that the batch appends to a conversation. */
export interface AppendedMessage {
  readonly position: number;
  readonly part: ChainPart;
  readonly scopedKey: Sha256;
  readonly createdAt: number;
  callId: string | null;
}

export interface Conversation {
  readonly id: string;
  readonly projectId: string;
  readonly source: string;
  readonly subject: string | null;
  readonly scope: Sha256;
  readonly isNew: boolean;
  state: 'stored' | 'read';
  opened: number;
  learnable: boolean;
  calls: number;
  messages: number;
  startedAt: number;
  lastTurnAt: number;
  tipKey: Sha256;
  tipMessageKey: Sha256;
  /** Message hashes by position, as far as they were loaded. */
  readonly messageHashes: Map<number, Sha256>;
  /** The row must be updated. */
  changed: boolean;
  /** The batch opened or reopened the conversation, so its idle timer must be started. */
  needsIdleTimer: boolean;
  /** Trace context of the call that last needed the timer. */
  trace?: string | undefined;
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
  const tipIndex = new Map<Sha256, Set<Conversation>>();
  const lastMessageIndex = new Map<Sha256, Set<Conversation>>();
  const occurrenceIndex = new Map<Sha256, MessageOccurrence[]>();
  const scopeIndex = new Map<Sha256, Set<Conversation>>();
  const attributedResponses: MessageOccurrence[] = [];

  const addOccurrence = (key: Sha256, occurrence: MessageOccurrence): void => {
    const occurrences = occurrenceIndex.get(key);
    if (occurrences) occurrences.push(occurrence);
    else occurrenceIndex.set(key, [occurrence]);
  };

  const index = (conversation: Conversation): void => {
    conversations.set(conversation.id, conversation);
    addToIndex(tipIndex, conversation.tipKey, conversation);
    addToIndex(lastMessageIndex, conversation.tipMessageKey, conversation);
    addToIndex(scopeIndex, conversation.scope, conversation);
  };

  return {
    /** Adds a loaded conversation with the occurrences of messages at which calls of the batch end. */
    add(conversation: Conversation, occurrences: readonly { key: Sha256; position: number; callId: string | null }[]): void {
      index(conversation);
      for (const { key, position, callId } of occurrences) addOccurrence(key, { conversation, position, callId });
    },
    byTip: (key: Sha256) => [...(tipIndex.get(key) ?? [])],
    byLastMessage: (messageKey: Sha256) => [...(lastMessageIndex.get(messageKey) ?? [])],
    occurrencesOf: (key: Sha256): readonly MessageOccurrence[] => occurrenceIndex.get(key) ?? [],
    /** Open conversations of a scope. */
    openInScope: (scope: Sha256) => [...(scopeIndex.get(scope) ?? [])].filter((conversation) => conversation.state === 'stored'),
    /** Appends the messages of `call` from index `from` on. */
    append(conversation: Conversation, call: RecordedCall, from: number): void {
      tipIndex.get(conversation.tipKey)?.delete(conversation);
      lastMessageIndex.get(conversation.tipMessageKey)?.delete(conversation);
      let tipMessageHash: Sha256 | null = null;
      for (let at = from; at < call.parts.length; at += 1) {
        const part = call.parts[at];
        const scopedKey = call.keyAt(at);
        if (!part || !scopedKey) continue;
        const isResponse = at >= call.promptLength;
        const callId = isResponse ? call.callId : null;
        const createdAt = isResponse ? call.endedAt : call.startedAt;
        conversation.added.push({ position: conversation.messages, part, scopedKey, createdAt, callId });
        addOccurrence(scopedKey, { conversation, position: conversation.messages, callId });
        conversation.messageHashes.set(conversation.messages, part.messageHash);
        conversation.messages += 1;
        conversation.tipKey = scopedKey;
        tipMessageHash = part.messageHash;
      }
      if (tipMessageHash !== null) conversation.tipMessageKey = toScopedKey(call.scope, tipMessageHash);
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

function addToIndex(keyedIndex: Map<Sha256, Set<Conversation>>, key: Sha256, conversation: Conversation): void {
  const set = keyedIndex.get(key);
  if (set) set.add(conversation);
  else keyedIndex.set(key, new Set([conversation]));
}
