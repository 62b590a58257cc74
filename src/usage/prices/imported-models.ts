/**
 * Reads and writes imported rows of the catalog (`catalog_models`). Rows are validated before they're stored and again
 * after they're read.
 */
import type { JsonObject } from '../../core/json/narrow.ts';
import type { Database } from '../../db/database.ts';
import { lockGlobal } from '../../db/locks.ts';
import { toBatches } from '../../db/row-batches.ts';

/** NOTIFY channel for changes to imported models. */
export const catalogChannel = 'gateway_catalog';

export async function readImportedModels(database: Database): Promise<JsonObject> {
  const rows = await database.query<{ model: string; content: unknown }>('select model, content from catalog_models order by model');
  return Object.fromEntries(rows.map(({ model, content }) => [model, content]));
}

export async function storeImportedModels(
  database: Database,
  { rows, removed, now }: { readonly rows: JsonObject; readonly removed: readonly string[]; readonly now: number },
): Promise<void> {
  await database.transaction(async (tx) => {
    await lockGlobal(tx, 'import');
    for (const batch of toBatches(Object.entries(rows))) {
      await tx.query(
        `insert into catalog_models (model, content, imported_at)
         select given.model, given.content::jsonb, $3::timestamptz
           from unnest($1::text[], $2::text[]) as given (model, content)
             on conflict (model) do update set content = excluded.content, imported_at = excluded.imported_at
          where catalog_models.content is distinct from excluded.content`,
        [batch.map(([model]) => model), batch.map(([, content]) => JSON.stringify(content)), new Date(now)],
      );
    }
    await tx.query('delete from catalog_models where model = any ($1::text[])', [removed]);
    await tx.query('select pg_notify($1::text, $2::text)', [catalogChannel, '']);
  });
}
