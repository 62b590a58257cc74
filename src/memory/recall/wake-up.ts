/**
 * Provides context for an agent at the start of its session, i.e. pinned and trusted memories, the latest
 * conversations, and the knowledge and profile pages.
 */
import type { Database } from '../../db/database.ts';
import { databaseOf } from '../../db/query-slots.ts';
import { wrapRecalled } from '../../dialects/prompt/recalled-block.ts';
import type { ConversationSummary } from '../conversations/list-conversations.ts';
import { type Item, inRecallSql, itemColumns } from '../records/item-record.ts';
import type { StoredPage } from '../records/pages.ts';
import { inScope } from '../text/subject-scope.ts';
import { sanitizeLine } from './recall-block.ts';

const maxItems = 50;
const maxTitles = 20;
/**
 * The maximum length of the block. Without it, fifty memories of 4,000 characters could fill the context window of many
 * models.
 */
const maxBlockLength = 24_000;

/**
 * True for memories that a person wrote, and for those that have `useful` ratings and whose `wrong` ratings have all
 * been overruled. There's an index on the same condition.
 */
const trustedSql = `(item.origin = 'person' or (item.ratings_useful > 0 and item.ratings_wrong <= item.wrong_overruled))`;

export type EpisodeTitle = Pick<ConversationSummary, 'id' | 'title' | 'lastTurnAt'>;
export type Page = Pick<StoredPage, 'text' | 'updatedAt'>;

export interface WakeUp {
  readonly pinned: readonly Item[];
  readonly trusted: readonly Item[];
  readonly subjectMemories: readonly Item[];
  readonly episodes: readonly EpisodeTitle[];
  readonly knowledge: Page | null;
  readonly profile: Page | null;
  readonly text: string;
}

export function createWakeUp({ database }: { readonly database: Database }) {
  return async (projectId: string, subject: string | null): Promise<WakeUp> => {
    const queries = databaseOf(database, projectId);
    const [pinned, trusted, subjectMemories, episodes, pages] = await Promise.all([
      readItems('item.pinned'),
      readItems(trustedSql),
      subject === null ? [] : readItems('item.subject = $2::text', 'item.pinned desc, item.importance desc,'),
      readTitles(),
      readPages(),
    ]);
    const page = (kind: string): Page | null => pages.find((row) => row.kind === kind) ?? null;
    const context = { pinned, trusted, subjectMemories, episodes, knowledge: page('knowledge'), profile: page('profile') };
    return { ...context, text: formatBlock(context) };

    function readItems(condition: string, order = ''): Promise<Item[]> {
      return queries.query<Item>(
        `select ${itemColumns} from memory_items as item
          where item.project_id = $1::uuid and item.state = 'live' and ${inRecallSql} and ${inScope('item.subject', '$2')} and ${condition}
          order by ${order} item.created_at desc, item.id desc
          limit ${maxItems}`,
        [projectId, subject],
      );
    }

    function readTitles(): Promise<EpisodeTitle[]> {
      // Read two index ranges rather than using OR. With OR, PostgreSQL would go through the newest conversations of
      // all subjects until it has found enough.
      const latest = (condition: string): string => `(
        select id, title, last_turn_at from conversations
         where project_id = $1::uuid and state = 'read' and ${condition}
         order by last_turn_at desc, id desc
         limit ${maxTitles})`;
      return queries.query<EpisodeTitle>(
        `select id, title, last_turn_at as "lastTurnAt"
           from (${latest('$2::text is null')}
                 union all ${latest('$2::text is not null and subject is null')}
                 union all ${latest('subject = $2::text')}) as titles
          order by last_turn_at desc, id desc
          limit ${maxTitles}`,
        [projectId, subject],
      );
    }

    function readPages(): Promise<(Page & { kind: string })[]> {
      return queries.query<Page & { kind: string }>(
        `select kind, text, updated_at as "updatedAt" from memory_pages
          where project_id = $1::uuid and (kind = 'knowledge' or (kind = 'profile' and subject = $2::text))`,
        [projectId, subject],
      );
    }
  };
}

/**
 * Formats the context for a prompt. Each memory appears once, on a single line that says where it comes from. Returns
 * an empty string if there's no context.
 */
function formatBlock({ pinned, trusted, subjectMemories, episodes, knowledge, profile }: Omit<WakeUp, 'text'>): string {
  const items = [...new Map([...pinned, ...trusted, ...subjectMemories].map((item) => [item.id, item])).values()];
  const sections = [
    formatSection('Knowledge', knowledge ? [sanitizeLine(knowledge.text, maxBlockLength)] : []),
    formatSection('Profile of the user', profile ? [sanitizeLine(profile.text, maxBlockLength)] : []),
    formatSection(
      'Memories',
      items.map((item) => formatListItem(item.text, `(${item.kind}, ${item.origin}) `)),
    ),
    formatSection(
      'Latest conversations',
      episodes.map(({ title }) => formatListItem(title ?? '', '')),
    ),
  ].flat();
  return sections.length === 0 ? '' : wrapRecalled('wakeUp', truncateLines(sections));
}

/** Formats a section. Leaves out the empty lines that replace unsafe texts. */
function formatSection(title: string, lines: readonly string[]): string[] {
  const kept = lines.filter((line) => line !== '');
  return kept.length === 0 ? [] : [`${title}:`, ...kept];
}

function formatListItem(text: string, label: string): string {
  const line = sanitizeLine(text, maxBlockLength);
  return line === '' ? '' : `- ${label}${line}`;
}

/**
 * Keeps as many lines as fit. The first one that doesn't fit is truncated if there's enough space left, and dropped if
 * not.
 */
function truncateLines(lines: readonly string[]): string[] {
  const kept: string[] = [];
  let length = 0;
  for (const line of lines) {
    const remaining = maxBlockLength - length;
    if (line.length > remaining) {
      if (remaining > 200) kept.push(`${line.slice(0, remaining - 1)}…`.toWellFormed());
      break;
    }
    kept.push(line);
    length += line.length + 1;
  }
  return kept;
}
