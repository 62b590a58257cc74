/**
 * Stores the texts of extras, e.g. of system prompts and tool results, that we've seen before. A project has each of
 * them only once. New texts are packed into their part instead (see `packed-extras.ts`).
 */
import { createLruCache } from '../../core/lru-cache.ts';
import type { Queries } from '../../db/database.ts';
import { type Column, querySelected } from '../../db/row-batches.ts';
import { type ExtraPart, hashText, type Sha256 } from './chain.ts';
import { findStored, type StoredKey } from './find-stored.ts';
import { type PackedText, packText } from './packed-text.ts';

export interface NewExtra {
  readonly projectId: string;
  readonly part: ExtraPart;
}

interface ExtraText extends PackedText {
  readonly projectId: string;
  readonly textHash: Sha256;
}

/**
 * The keys of texts that we've recently stored or found. We use them as hints about which texts to look up, because
 * another process may have deleted the texts since then.
 */
const hints = createLruCache<true>(50_000);

/**
 * Returns the text of an extra if we haven't seen it before, and remembers that we have now. Returns null if it should
 * be stored in `prompt_texts`, or if the extra is binary.
 *
 * Most texts only occur in a single session, so we store a new text in its part. That takes 400 bytes less than a text
 * that other parts can refer to. If we see it again, it gets its own row.
 */
export function takeNewText(projectId: string, part: ExtraPart): string | null {
  const key = keyOf(projectId, part);
  // Use `get` rather than `has`, so that we don't forget texts that are still in use.
  if (key === null || hints.get(key)) return null;
  const { text } = part;
  if (hashText(text) !== part.textHash) return null;
  hints.set(key, true);
  return text;
}

/**
 * Stores the texts that aren't in the database yet. A new part often contains a text that we've already stored, e.g. if
 * a client has changed the system prompt before it. So we first check if the database still has the texts that we've
 * seen recently. That's much cheaper than masking, compressing and sending them again.
 */
export async function storeExtraTexts(tx: Queries, extras: readonly NewExtra[]): Promise<void> {
  const hinted = new Map<string, StoredKey>();
  for (const { projectId, part } of extras) {
    const key = keyOf(projectId, part);
    if (key !== null && part.textHash !== null && hints.has(key)) hinted.set(key, { projectId, hash: part.textHash });
  }
  const stored = await findStored(tx, 'prompt_texts', hinted);
  const texts = new Map<string, ExtraText>();
  for (const { projectId, part } of extras) {
    const key = keyOf(projectId, part);
    if (key === null || part.textHash === null || stored.has(key) || texts.has(key)) continue;
    const { text } = part;
    // This may be a getter that has just parsed the text again. Don't store it unless it still matches the hash.
    if (hashText(text) === part.textHash) texts.set(key, { projectId, textHash: part.textHash, ...packText(text) });
  }
  await querySelected(tx, [...texts.values()], columns, insertSql, ({ content }) => content.length);
  for (const key of texts.keys()) hints.set(key, true);
}

function keyOf(projectId: string, { textHash }: ExtraPart): string | null {
  return textHash === null ? null : `${projectId}${textHash}`;
}

const columns: readonly Column<ExtraText>[] = [
  ['hash', 'bytea', ({ textHash }) => textHash],
  ['project_id', 'uuid', ({ projectId }) => projectId],
  ['content', 'bytea', ({ content }) => content],
  ['is_compressed', 'boolean', ({ isCompressed }) => isCompressed],
];

const insertSql = (rows: string): string =>
  `insert into prompt_texts (project_id, hash, content, is_compressed)
   select project_id, hash, content, is_compressed from (${rows}) as new
   on conflict (project_id, hash) do nothing`;
