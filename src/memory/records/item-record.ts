export const learningAuthor = 'gateway-memory';

/** Imports and merges never set a count to more than this. The columns are integers, so there's room to count on. */
export const maxCount = 1_000_000_000;

export const itemKinds = ['fact', 'preference', 'decision', 'event', 'procedure'] as const;
export type ItemKind = (typeof itemKinds)[number];

/**
 * Who has written a memory: an application with a key (`agent`), the memory worker that learns from conversations
 * (`observed`), or a person.
 */
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
  /**
   * Who closed the memory, in the same form as `author`. Null if it's live, and also for some closed memories, because
   * imports and older versions didn't record it.
   */
  readonly closedBy: string | null;
}

/**
 * SQL that's true if recall can use the `item`. Recall ignores memories that have two `wrong` ratings, unless a person
 * has overruled them.
 */
export const inRecallSql = `(item.state = 'live' and item.ratings_wrong - item.wrong_overruled < 2)`;

/**
 * Returns SQL for the number of `wrong` ratings after `change` was added to it. Only a person may bring an excluded
 * memory back, so the two ratings that exclude it still count if they are changed or erased later.
 */
export function wrongAfter(change: string): string {
  return `greatest(item.ratings_wrong + ${change}, case when item.ratings_wrong - item.wrong_overruled >= 2 then item.wrong_overruled + 2 else 0 end)`;
}

/**
 * Only a person may bring an excluded memory back, so it doesn't help if a key or an end user says the same again. If
 * the project's newest memory with the same words and subject has two `wrong` ratings that nobody has overruled, the
 * new one gets two as well. Returns SQL for their number. The arguments are SQL expressions.
 */
export function inheritedWrongSql({ projectId, subject, textSha256 }: Record<'projectId' | 'subject' | 'textSha256', string>): string {
  return `coalesce(
    (select case when ratings_wrong - wrong_overruled >= 2 then 2 else 0 end
       from memory_items
      where project_id = ${projectId} and words_sha256 = ${textSha256} and subject is not distinct from ${subject}
      order by created_at desc, id desc
      limit 1), 0)`;
}

export const itemColumns = `item.id, item.text, item.kind, item.importance::integer as importance, item.subject, item.pinned, item.origin,
  item.author, item.state, ${inRecallSql} as "inRecall", item.ratings_useful as useful, item.ratings_wrong as wrong,
  item.conversation_id as "conversationId", item.supersedes, item.superseded_by as "supersededBy", item.created_at as "createdAt",
  item.updated_at as "updatedAt", item.closed_at as "closedAt", item.closed_by as "closedBy"`;
