/** Import of a project's memory from a file (docs/memory-export.md). The body is read as it is stored, however long it is. */
import type { Request, Router } from 'express';
import { z } from 'zod';
import { gatewayError } from '../../../core/errors.ts';
import { parseOrBadRequest } from '../../../core/parse-or-bad-request.ts';
import { type ImportMemory, type ImportReport, importFormats } from '../../../memory/portability/import-memory.ts';
import { PlainTextError } from '../../plain-text-error.ts';
import type { Responders } from './responders.ts';

export interface MemoryTransferRouteDeps {
  readonly importMemory: ImportMemory;
}

/** Before the JSON bodies of the other routes are read. */
export function addMemoryTransferRoutes(router: Router, { changeProject }: Responders, { importMemory }: MemoryTransferRouteDeps): void {
  router.post(
    '/teams/:project/memory/import',
    changeProject('memory.import', async ({ id }, request, change) => {
      const { format, dry_run, restore_erased } = parseOrBadRequest(importQuery, request.query);
      const { 'content-encoding': encoding = 'identity' } = request.headers;
      if (encoding !== 'identity') throw new PlainTextError(415, 'a body with content-encoding is not supported');
      const flags = { dryRun: dry_run === 'true', restoreErased: restore_erased === 'true' };
      try {
        const report = await importMemory({ projectId: id, format, chunks: readChunks(request), ...flags });
        const json = toReportJson(report);
        change.note({ format, dry_run: flags.dryRun, restore_erased: flags.restoreErased, records: json.records });
        return json;
      } finally {
        // What an error left unread; Node does so only for requests that were never read.
        request.resume();
      }
    }),
  );
}

const flag = z.enum(['true', 'false']).default('false');
const importQuery = z.object({ format: z.enum(importFormats).default('gateway'), dry_run: flag, restore_erased: flag });

/** Unlike the request's own iterator it leaves the connection open for the response when it stops early. */
async function* readChunks(request: Request): AsyncGenerator<Uint8Array, void> {
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false })) if (Buffer.isBuffer(chunk)) yield chunk;
  } catch (cause) {
    throw gatewayError('bad_request', { message: 'the body ended early', cause });
  }
}

function toReportJson({ dryRun, counts, refusals }: ImportReport) {
  return { object: 'memory.import', dry_run: dryRun, records: Object.fromEntries(counts), refusals };
}
