/**
 * Exports and imports the memory of a project (docs/memory-export.md). Files can have any size, because backpressure
 * limits how fast we read them.
 */
import type { Request } from 'express';
import { z } from 'zod';
import { GatewayError, gatewayError } from '../../../core/errors.ts';
import { parseOrBadRequest } from '../../../core/parse-or-bad-request.ts';
import { hashSubjectHex, isSubject } from '../../../core/subject.ts';
import type { ExportMemory } from '../../../memory/portability/export-memory.ts';
import { createTally } from '../../../memory/portability/import-batch.ts';
import { type ImportMemory, type ImportReport, importFormats } from '../../../memory/portability/import-memory.ts';
import { checkToken } from '../../admin.ts';
import { PlainTextError } from '../../plain-text-error.ts';
import { flag } from '../../query-schemas.ts';
import { sendFile } from '../../send-response.ts';
import type { Change, Responders } from './responders.ts';

export interface MemoryTransferRouteDeps {
  readonly exportMemory: ExportMemory;
  readonly importMemory: ImportMemory;
  readonly adminTokens: () => readonly string[];
}

/** These routes have to be added before the middleware that reads JSON bodies. */
export function addMemoryTransferRoutes({ changeProject, streamProject }: Responders, deps: MemoryTransferRouteDeps): void {
  const { exportMemory, importMemory, adminTokens } = deps;
  streamProject('/teams/:project/memory/export', 'memory.export', async ({ id, slug }, request, response, change) => {
    const { subject = null } = parseOrBadRequest(exportQuery, request.query);
    if (subject !== null) change.note({ subject_sha256: hashSubjectHex(subject) });
    const lines = exportMemory({ projectId: id, project: slug, subject });
    // Read the first line before we send the head. If the database is down, the caller then gets a proper error.
    const first = await lines.next();
    await sendFile(response, { contentType: 'application/x-ndjson', lengthBytes: null, chunks: toChunks(first, lines, change) });
  });
  changeProject('post', '/teams/:project/memory/import', 'memory.import', async ({ id, slug }, request, change) => {
    const { format, dry_run: dryRun, restore_erased: restoreErased } = parseOrBadRequest(importQuery, request.query);
    const { 'content-encoding': encoding = 'identity' } = request.headers;
    if (encoding !== 'identity')
      throw new PlainTextError(415, 'bodies with content-encoding are not supported; send the body uncompressed');
    const tally = createTally();
    try {
      return toReportJson(
        await importMemory({
          projectId: id,
          project: slug,
          format,
          chunks: readChunks(request, adminTokens),
          tally,
          dryRun,
          restoreErased,
        }),
      );
    } finally {
      change.note({ format, dry_run: dryRun, restore_erased: restoreErased, records: Object.fromEntries(tally.counts) });
      // After an error, discard the rest of the request. Once we've started to read a request, Node no longer does that
      // itself.
      request.resume();
    }
  });
}

type Lines = ReturnType<ExportMemory>;

async function* toChunks(
  first: Awaited<ReturnType<Lines['next']>>,
  lines: Lines,
  change: Pick<Change, 'note'>,
): AsyncGenerator<Buffer, void> {
  try {
    for (let next = first; ; next = await lines.next()) {
      if (next.done === true) return change.note({ records: next.value });
      yield Buffer.from(next.value);
    }
  } finally {
    await lines.return({});
  }
}

const exportQuery = z.strictObject({
  subject: z.string().refine(isSubject, 'must be 1 to 256 characters without control characters').optional(),
});

const importQuery = z.strictObject({ format: z.enum(importFormats).default('gateway'), dry_run: flag, restore_erased: flag });

/**
 * Unlike the request's default iterator, this one keeps the connection open if we stop early, so that we can still
 * respond. An import can take hours, so we check the admin token again for each chunk.
 */
async function* readChunks(request: Request, adminTokens: () => readonly string[]): AsyncGenerator<Uint8Array, void> {
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false })) {
      checkToken(request, adminTokens);
      if (Buffer.isBuffer(chunk)) yield chunk;
    }
  } catch (cause) {
    if (cause instanceof GatewayError) throw cause;
    throw gatewayError('bad_request', { message: 'the connection was closed before the request body was complete', cause });
  }
}

function toReportJson({ dryRun, counts, refusals }: ImportReport) {
  return { object: 'memory.import', dry_run: dryRun, records: Object.fromEntries(counts), refusals };
}
