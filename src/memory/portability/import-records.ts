/**
 * Imports the records of an export in batches. Within a batch, we import records before the ones that refer to them.
 */
import type { RecordOf, RecordType } from './format.ts';
import type { ImportBatch } from './import-batch.ts';
import { importConversations, type OpenConversation } from './import-conversations.ts';
import { importEntities, importFacts, importPages, importSuccessions } from './import-graph.ts';
import { importItems, importVotes } from './import-items.ts';
import type { ExportedLine } from './read-export.ts';

export function subjectOf({ record, open }: ExportedLine): string | null {
  return open?.record.subject ?? ('subject' in record && typeof record.subject === 'string' ? record.subject : null);
}

/** Creates a function that imports a file. Call it for each batch, in the order of the file. */
export function createRecordImport() {
  /** The conversation in which the previous batch ended. The next batch may contain more of its messages. */
  let open: OpenConversation | null = null;

  return async (batch: ImportBatch, lines: readonly ExportedLine[]): Promise<void> => {
    const messages = new Map<OpenConversation, RecordOf<'message'>[]>(open ? [[open, []]] : []);
    for (const { line, record, open: own } of lines) {
      if (!own) continue;
      const ofOwn = messages.get(own) ?? [];
      messages.set(own, ofOwn);
      if (record.type === 'message') ofOwn.push({ ...record, line });
    }
    open = lines.at(-1)?.open ?? null;
    const parts = [...messages].map(([own, list]) => ({ open: own, messages: list, isLast: own !== open }));
    if (parts.length > 0) await importConversations(batch, parts);
    await importAll(lines, 'item', (items) => importItems(batch, items));
    await importAll(lines, 'vote', (votes) => importVotes(batch, votes));
    await importAll(lines, 'entity', (entities) => importEntities(batch, entities));
    await importAll(lines, 'fact', (facts) => importFacts(batch, facts));
    await importAll(lines, 'succession', (successions) => importSuccessions(batch, successions));
    await importAll(lines, 'page', (pages) => importPages(batch, pages));
    // An import doesn't restore calls, and prompts are useless without their calls.
    await importAll(lines, 'prompt', async (prompts) => batch.tally.count('prompt', 'refused', prompts.length));
  };
}

async function importAll<Type extends RecordType>(
  lines: readonly ExportedLine[],
  type: Type,
  importRecords: (records: RecordOf<Type>[]) => Promise<void>,
): Promise<void> {
  type Found = Extract<ExportedLine['record'], { readonly type: Type }>;
  const isOfType = (record: ExportedLine['record']): record is Found => record.type === type;
  const records = lines.flatMap(({ line, record }) => (isOfType(record) ? [{ ...record, line }] : []));
  if (records.length > 0) await importRecords(records);
}
