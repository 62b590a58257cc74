/** A memory item as a row, and as callers see it (shapes 3). */
import { formatTime } from '../../core/time.ts';

export const itemKinds = ['fact', 'preference', 'decision', 'event', 'procedure'] as const;
export type ItemKind = (typeof itemKinds)[number];

/** Who a memory comes from: an application with its key, the memory worker, or a person. */
export type ItemOrigin = 'agent' | 'observed' | 'person';

export interface Item {
  readonly id: string;
  readonly text: string;
  readonly kind: ItemKind;
  readonly importance: number;
  readonly subject: string | null;
  readonly pinned: boolean;
  readonly origin: ItemOrigin;
  readonly author: string;
  readonly state: 'live' | 'closed';
  readonly inRecall: boolean;
  readonly useful: number;
  readonly wrong: number;
  readonly conversationId: string | null;
  readonly supersedes: string | null;
  readonly supersededBy: string | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly closedAt: Date | null;
}

/** Two `wrong` ratings that no person has overruled leave an item out of recall (specification 3). Of the row `item`. */
export const inRecallSql = `(item.state = 'live' and item.ratings_wrong - item.wrong_overruled < 2)`;

/** What a query selects of the row `item`. */
export const itemColumns = `item.id, item.text, item.kind, item.importance::integer as importance, item.subject, item.pinned, item.origin,
  item.author, item.state, ${inRecallSql} as "inRecall", item.ratings_useful as useful, item.ratings_wrong as wrong,
  item.conversation_id as "conversationId", item.supersedes, item.superseded_by as "supersededBy", item.created_at as "createdAt",
  item.updated_at as "updatedAt", item.closed_at as "closedAt"`;

export function toItemJson(item: Item): Record<string, unknown> {
  return {
    id: item.id,
    object: 'memory.item',
    text: item.text,
    kind: item.kind,
    importance: item.importance,
    subject: item.subject,
    pinned: item.pinned,
    origin: item.origin,
    author: item.author,
    state: item.state,
    in_recall: item.inRecall,
    ratings: { useful: item.useful, wrong: item.wrong },
    episode_id: item.conversationId,
    supersedes: item.supersedes,
    superseded_by: item.supersededBy,
    created_at: formatTime(item.createdAt.getTime()),
    updated_at: formatTime(item.updatedAt.getTime()),
    closed_at: item.closedAt ? formatTime(item.closedAt.getTime()) : null,
  };
}

/** Shapes 8. */
export function toRemovalJson(item: Item): Record<string, unknown> {
  const { id, object, state, closed_at } = toItemJson(item);
  return { id, object, deleted: true, state, closed_at };
}
