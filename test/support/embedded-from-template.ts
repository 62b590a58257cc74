/**
 * Preloaded with `--import` into programs that create embedded databases. A new database is then a copy of the migrated
 * template, because running all migrations takes seconds of CPU time.
 */
import { existsSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { join } from 'node:path';
import type { openEmbeddedDatabase as open } from '../../src/db/embedded.ts';
import { copyEmbeddedTemplate } from './embedded-template.ts';

const original = new URL('../../src/db/embedded.ts', import.meta.url).href;

registerHooks({
  resolve(specifier, context, next) {
    const resolved = next(specifier, context);
    return resolved.url === original && context.parentURL !== import.meta.url ? { ...resolved, url: import.meta.url } : resolved;
  },
});

export const openEmbeddedDatabase: typeof open = async (options) => {
  if (!existsSync(join(options.dataDir, 'db'))) copyEmbeddedTemplate(options.dataDir);
  const embedded = await import('../../src/db/embedded.ts');
  return embedded.openEmbeddedDatabase(options);
};
