/**
 * The conversations that the calls of one batch may join. They already include the changes made by the calls that we've
 * processed so far. `load-working-set.ts` and `save-working-set.ts` do the database access.
 */
import { type ChainPart, type Sha256, toScopedKey } from './chain.ts';

interface Scoped {
  readonly projectId: string;
  readonly source: string;
  readonly subject: string | null;
  /** A hash of the project, source and subject. */
  readonly scope: Sha256;
}

export interface RecordedCall extends Scoped {
  readonly callId: string;
  readonly explicitWrite: boolean;
  readonly startedAt: number;
  readonly endedAt: number;
  readonly trace?: string | undefined;
  /** The messages of the request, followed by the response if there is one. */
  readonly parts: readonly ChainPart[];
  /**
   * Returns the scoped lookup key of a part, or undefined if there's no such part. Negative indexes count from the end.
   */
  readonly keyAt: (index: number) => Sha256 | undefined;
  readonly promptLength: number;
  /** Index of the first assistant message in the request, or -1 if there's no history. */
  readonly firstAssistant: number;
}

export interface AppendedMessage {
  readonly position: number;
  readonly part: ChainPart;
  readonly scopedKey: Sha256;
  readonly createdAt: number;
  callId: string | null;
}

export interface Conversation extends Scoped {
  readonly id: string;
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
  readonly messageHashes: Map<number, Sha256>;
  changed: boolean;
  /** True if the idle timer has to be started, e.g. because this batch has opened or reopened the conversation. */
  needsIdleTimer: boolean;
  trace?: string | undefined;
  readonly added: AppendedMessage[];
}

/**
 * A place in a conversation where a message occurs. `callId` is the call that produced the message, or null if we don't
 * know it.
 */
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
    /**
     * Adds a conversation that was loaded from the database. `occurrences` says where it contains the last message of a
     * call in this batch.
     */
    add(conversation: Conversation, occurrences: readonly { key: Sha256; position: number; callId: string | null }[]): void {
      index(conversation);
      for (const { key, position, callId } of occurrences) addOccurrence(key, { conversation, position, callId });
    },
    byTip: (key: Sha256) => [...(tipIndex.get(key) ?? [])],
    byLastMessage: (messageKey: Sha256) => [...(lastMessageIndex.get(messageKey) ?? [])],
    occurrencesOf: (key: Sha256): readonly MessageOccurrence[] => occurrenceIndex.get(key) ?? [],
    openInScope: (scope: Sha256) => [...(scopeIndex.get(scope) ?? [])].filter((conversation) => conversation.state === 'stored'),
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
    /**
     * Records which call a response came from. Until now we only knew the response from the history of another request.
     */
    attributeResponse(occurrence: MessageOccurrence, call: RecordedCall): void {
      occurrence.callId = call.callId;
      const added = occurrence.conversation.added.find((part) => part.position === occurrence.position);
      if (added) added.callId = call.callId;
      else attributedResponses.push(occurrence);
    },
    all: () => conversations.values(),
    /** Stored responses that had no call until we found it in this batch. We have to update their rows. */
    attributedResponses: (): readonly MessageOccurrence[] => attributedResponses,
  };
}

function addToIndex(keyedIndex: Map<Sha256, Set<Conversation>>, key: Sha256, conversation: Conversation): void {
  const set = keyedIndex.get(key);
  if (set) set.add(conversation);
  else keyedIndex.set(key, new Set([conversation]));
}
