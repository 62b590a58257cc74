/** Imports the records of an export in batches. Within a batch, each type comes after the types it refers to. */
import type { MessageRecord } from './format.ts';
import type { ImportBatch } from './import-batch.ts';
import { importConversations, type OpenConversation } from './import-conversations.ts';
import { importEntities, importFacts, importPages, importSuccessions } from './import-graph.ts';
import { importItems, type Lined } from './import-items.ts';
import type { ExportedLine } from './read-export.ts';

/** Returns the subject of a record. A message has the subject of its conversation. */
export function subjectOf({ record, open }: ExportedLine): string | null {
  return open?.record.subject ?? ('subject' in record && typeof record.subject === 'string' ? record.subject : null);
}

/** Imports the batches of one file, in order. */
export function createRecordImport() {
  /** The conversation whose messages may continue in the next batch. */
  let open: OpenConversation | null = null;

  return async (batch: ImportBatch, lines: readonly ExportedLine[]): Promise<void> => {
    const messages = new Map<OpenConversation, Lined<MessageRecord>[]>(open ? [[open, []]] : []);
    for (const { line, record, open: own } of lines) {
      if (!own) continue;
      const ofOwn = messages.get(own) ?? [];
      messages.set(own, ofOwn);
      if (record.type === 'message') ofOwn.push({ ...record, line });
    }
    open = lines.at(-1)?.open ?? null;
    const parts = [...messages].map(([own, list]) => ({ open: own, messages: list, isLast: own !== open }));
    if (parts.length > 0) await importConversations(batch, parts);
    const items = select(lines, 'item');
    if (items.length > 0) await importItems(batch, items);
    const entities = select(lines, 'entity');
    if (entities.length > 0) await importEntities(batch, entities);
    const facts = select(lines, 'fact');
    if (facts.length > 0) await importFacts(batch, facts);
    const successions = select(lines, 'succession');
    if (successions.length > 0) await importSuccessions(batch, successions);
    await importPages(batch, select(lines, 'page'));
    // We don't import prompts, because they belong to calls, which we don't import either.
    const prompts = select(lines, 'prompt');
    if (prompts.length > 0) batch.tally.count('prompt', 'refused', prompts.length);
  };
}

type ExportRecord = ExportedLine['record'];

function select<Type extends ExportRecord['type']>(
  lines: readonly ExportedLine[],
  type: Type,
): Lined<Extract<ExportRecord, { type: Type }>>[] {
  const isOfType = (record: ExportRecord): record is Extract<ExportRecord, { type: Type }> => record.type === type;
  return lines.flatMap(({ line, record }) => (isOfType(record) ? [{ ...record, line }] : []));
}
