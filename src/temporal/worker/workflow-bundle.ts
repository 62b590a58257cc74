/**
 * Provides the workflow bundle for the worker. We cache it in the data directory under the hash of its sources, so it's
 * only built on the first start of a version. That happens in a child process, because webpack takes 1.2 s on a fast
 * core and blocks for up to 90 ms at a time, while the API has to keep serving calls.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Logger } from '../../observability/logger.ts';
import { failureConverterPath } from '../payloads/data-converter.ts';

const run = promisify(execFile);
const buildTimeoutMs = 5 * 60_000;

export interface WorkflowBundleOptions {
  readonly dataDir: string;
  readonly logger: Logger;
  readonly signal?: AbortSignal;
  /**
   * A directory with a prebuilt bundle, e.g. from the image build (Dockerfile). The bundle is only used if it was built
   * from the same sources.
   */
  readonly shippedDir?: string;
}

/** The workflows are TypeScript in a checkout, and JavaScript in a published build. */
const extension = import.meta.url.endsWith('.ts') ? '.ts' : '.js';
const workflowsDir = fileURLToPath(new URL('../../../workflows/', import.meta.url));
const defaultShippedDir = fileURLToPath(new URL('../../../workflow-bundle/', import.meta.url));

/** Returns the path of the bundle for this version's workflows, and builds the bundle if necessary. */
export async function prepareWorkflowBundle({
  dataDir,
  logger,
  signal,
  shippedDir = defaultShippedDir,
}: WorkflowBundleOptions): Promise<string> {
  const name = `workflow-bundle-${await hashSources()}.js`;
  const shipped = join(shippedDir, name);
  if (await exists(shipped)) return shipped;
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const file = join(dataDir, name);
  if (await exists(file)) return file;
  const startedAt = performance.now();
  // Pass the module's URL as an argument rather than inserting it into the program, because a path can contain any
  // character.
  const program = 'const [, module, entry, target] = process.argv; await (await import(module)).writeWorkflowBundle(entry, target);';
  const workerModule = new URL(`./temporal-worker${extension}`, import.meta.url).href;
  const args = ['--input-type=module', '--eval', program, workerModule, join(workflowsDir, `index${extension}`), file];
  await run(process.execPath, args, { env: {}, timeout: buildTimeoutMs, ...(signal && { signal }) });
  logger.info({ ms: Math.round(performance.now() - startedAt) }, 'workflow bundle built');
  await deleteOtherBundles(dataDir, name);
  return file;
}

/** Hashes everything that the bundle depends on: the workflow sources, the failure converter and the SDK's version. */
async function hashSources(): Promise<string> {
  const sdkManifest: unknown = createRequire(import.meta.url)('@temporalio/worker/package.json');
  const hash = createHash('sha256').update(JSON.stringify(sdkManifest));
  for (const name of (await readdir(workflowsDir)).filter((file) => file.endsWith(extension)).sort()) {
    hash.update(`\0${name}\0`).update(await readFile(join(workflowsDir, name)));
  }
  hash.update(await readFile(failureConverterPath()));
  return hash.digest('hex').slice(0, 16);
}

/**
 * Deletes the bundles of other versions. Workers of another version that are still running have already loaded theirs.
 */
async function deleteOtherBundles(dataDir: string, name: string): Promise<void> {
  for (const other of await readdir(dataDir)) {
    if (/^workflow-bundle-[0-9a-f]{16}\.js$/.test(other) && other !== name) await rm(join(dataDir, other), { force: true });
  }
}

async function exists(file: string): Promise<boolean> {
  return (await stat(file).catch(() => null)) !== null;
}
