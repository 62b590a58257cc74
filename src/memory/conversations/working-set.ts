/**
 * The conversations that the calls of one batch may join, as they were in the database and as the batch changes them. Calls are placed one
 * after the other, so a call finds what the calls before it made. Nothing here reads or writes the database: `load-book.ts`
 * and `save-book.ts` do.
 */
import { keyInScope, type Part } from './chain.ts';

/** A recorded call on its way into a conversation. */
export interface Turn {
  readonly callId: string;
  readonly projectId: string;
  readonly source: string;
  readonly subject: string | null;
  readonly scope: Buffer;
  readonly explicitWrite: boolean;
  readonly startedAt: number;
  readonly endedAt: number;
  /** Messages of the request, then the answer when there is one. */
  readonly parts: readonly Part[];
  /** Of each part, its hash as it is looked up in the scope. */
  readonly placeKeys: readonly Buffer[];
  readonly promptLength: number;
  /** Index of the first message of the assistant in the request, -1 when the call has no history. */
  readonly firstAssistant: number;
}

/** A message of a conversation that the batch adds. */
export interface AddedPart {
  readonly position: number;
  readonly part: Part;
  readonly placeKey: Buffer;
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
  openedNow: boolean;
  readonly added: AddedPart[];
}

/** A message of a conversation that a call may stand at. */
export interface Place {
  readonly conversation: Conversation;
  readonly position: number;
  callId: string | null;
}

export interface Book {
  /** Takes in a conversation; `places` are those of its messages that calls of the batch asked for. */
  add(conversation: Conversation, places: readonly { key: Buffer; position: number; callId: string | null }[]): void;
  endingAt(key: Buffer): readonly Conversation[];
  endingWith(messageKey: Buffer): readonly Conversation[];
  placesAt(key: Buffer): readonly Place[];
  /** Open conversations of a scope (project, source and subject). */
  openIn(scope: Buffer): readonly Conversation[];
  /** Adds the messages of `turn` from index `from` on. */
  append(conversation: Conversation, turn: Turn, from: number): void;
  /** Names the recorded call that gave an answer known until now only from a later request. */
  answer(place: Place, turn: Turn): void;
  all(): Iterable<Conversation>;
  /** Answers of messages that are in the database already. */
  answers(): readonly Place[];
}

export function createBook(): Book {
  const conversations = new Map<string, Conversation>();
  const byTip = new Map<string, Set<Conversation>>();
  const byTipMessage = new Map<string, Set<Conversation>>();
  const byPlace = new Map<string, Place[]>();
  const byScope = new Map<string, Set<Conversation>>();
  const answers: Place[] = [];

  const addPlace = (key: Buffer, place: Place): void => {
    const name = nameOf(key);
    const places = byPlace.get(name);
    if (places) places.push(place);
    else byPlace.set(name, [place]);
  };

  const file = (conversation: Conversation): void => {
    conversations.set(conversation.id, conversation);
    include(byTip, conversation.tipKey, conversation);
    include(byTipMessage, conversation.tipMessageKey, conversation);
    include(byScope, conversation.scope, conversation);
  };

  return {
    add(conversation, places) {
      file(conversation);
      for (const { key, position, callId } of places) addPlace(key, { conversation, position, callId });
    },
    endingAt: (key) => [...(byTip.get(nameOf(key)) ?? [])],
    endingWith: (messageKey) => [...(byTipMessage.get(nameOf(messageKey)) ?? [])],
    placesAt: (key) => byPlace.get(nameOf(key)) ?? [],
    openIn: (scope) => [...(byScope.get(nameOf(scope)) ?? [])].filter((conversation) => conversation.state === 'stored'),
    append(conversation, turn, from) {
      byTip.get(nameOf(conversation.tipKey))?.delete(conversation);
      byTipMessage.get(nameOf(conversation.tipMessageKey))?.delete(conversation);
      for (let index = from; index < turn.parts.length; index += 1) {
        const part = turn.parts[index];
        const placeKey = turn.placeKeys[index];
        if (!part || !placeKey) continue;
        const isAnswer = index >= turn.promptLength;
        const callId = isAnswer ? turn.callId : null;
        const createdAt = isAnswer ? turn.endedAt : turn.startedAt;
        conversation.added.push({ position: conversation.messages, part, placeKey, createdAt, callId });
        addPlace(placeKey, { conversation, position: conversation.messages, callId });
        conversation.messageHashes.set(conversation.messages, part.messageHash);
        conversation.messages += 1;
        conversation.tipKey = placeKey;
        conversation.tipMessageKey = keyInScope(turn.scope, part.messageHash);
      }
      file(conversation);
    },
    answer(place, turn) {
      place.callId = turn.callId;
      const added = place.conversation.added.find((part) => part.position === place.position);
      if (added) added.callId = turn.callId;
      else answers.push(place);
    },
    all: () => conversations.values(),
    answers: () => answers,
  };
}

function include(index: Map<string, Set<Conversation>>, key: Buffer, conversation: Conversation): void {
  const name = nameOf(key);
  const set = index.get(name);
  if (set) set.add(conversation);
  else index.set(name, new Set([conversation]));
}

/** A hash as a key of a Map: one character for each byte. */
function nameOf(key: Buffer): string {
  return key.toString('latin1');
}
