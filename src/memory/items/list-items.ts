/** Lists memories in the console, newest first. Each page starts after the last id of the previous page. */
import type { Queries } from '../../db/database.ts';
import { type Item, type ItemKind, type ItemOrigin, itemColumns } from '../records/item-record.ts';

/** `left_out` means live memories that recall ignores because of their `wrong` ratings. */
export const itemStates = ['live', 'left_out', 'closed', 'all'] as const;
export type ItemStateFilter = (typeof itemStates)[number];

export interface ItemFilter {
  /** Null matches all subjects, not just project-wide memories. */
  readonly subject: string | null;
  readonly kind: ItemKind | null;
  readonly origin: ItemOrigin | null;
  readonly state: ItemStateFilter;
  readonly pinnedOnly: boolean;
  readonly conversationId: string | null;
}

export interface IdPage {
  readonly before: string | null;
  readonly limit: number;
}

/**
 * Keep these conditions in line with the partial indexes of live, pinned and left-out memories, so that the planner can
 * use them.
 */
const stateSql: Readonly<Record<ItemStateFilter, string>> = {
  live: `item.state = 'live'`,
  left_out: `item.state = 'live' and item.ratings_wrong - item.wrong_overruled >= 2`,
  closed: `item.state = 'closed'`,
  all: 'true',
};

/** Does the same checks as `stateSql`, for memories that have already been loaded. Keep the two in line. */
const stateChecks: Readonly<Record<ItemStateFilter, (item: Item) => boolean>> = {
  live: ({ state }) => state === 'live',
  left_out: ({ state, inRecall }) => state === 'live' && !inRecall,
  closed: ({ state }) => state === 'closed',
  all: () => true,
};

export function listItems(queries: Queries, projectId: string, filter: ItemFilter, { before, limit }: IdPage): Promise<Item[]> {
  const { subject, kind, origin, state, pinnedOnly, conversationId } = filter;
  return queries.query<Item>(
    `select ${itemColumns} from memory_items item
      where item.project_id = $1::uuid and ${stateSql[state]} ${pinnedOnly ? 'and item.pinned' : ''}
        and ($2::text is null or item.subject = $2::text) and ($3::text is null or item.kind = $3::text)
        and ${origin === 'person' ? `item.origin = 'person' and $4::text is not null` : '($4::text is null or item.origin = $4::text)'}
        and ($5::uuid is null or item.id < $5::uuid) and ($7::uuid is null or item.conversation_id = $7::uuid)
      order by item.id desc
      limit $6::integer`,
    [projectId, subject, kind, origin, before, limit, conversationId],
  );
}

/** Applies the filter to a search result. Has to agree with the conditions in `listItems`. */
export function matchesFilter(item: Item, { subject, kind, origin, state, pinnedOnly, conversationId }: ItemFilter): boolean {
  return (
    (subject === null || item.subject === subject) &&
    (kind === null || item.kind === kind) &&
    (origin === null || item.origin === origin) &&
    (!pinnedOnly || item.pinned) &&
    (conversationId === null || item.conversationId === conversationId) &&
    stateChecks[state](item)
  );
}
