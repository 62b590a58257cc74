import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { prepareWorkflowBundle } from '../../../src/temporal/worker/workflow-bundle.ts';
import { createTestLog } from '../../support/temporal.ts';

describe('the workflow bundle', () => {
  let dataDir: string;
  /** The path of the bundle that we build once for all tests, because it takes seconds. */
  let built: string;
  /** The share of the build during which this process's event loop was busy. */
  let utilization: number;
  const { logger } = createTestLog();
  beforeAll(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'gateway-bundle-'));
    await writeFile(join(dataDir, 'workflow-bundle-0123456789abcdef.js'), 'old');
    const before = performance.eventLoopUtilization();
    built = await prepareWorkflowBundle({ dataDir, logger });
    ({ utilization } = performance.eventLoopUtilization(before));
  });
  afterAll(() => rm(dataDir, { recursive: true }));

  test('bundles workflows without activities or the database driver', async () => {
    const code = await readFile(built, 'utf8');
    expect(code).toContain('conversationIdle');
    expect(code).not.toContain('node_modules/pg/');
    expect(code).not.toContain('activities/');
  });

  test('builds the workflow bundle only once and replaces an older one', async () => {
    const { mtimeMs } = await stat(built);
    expect(await prepareWorkflowBundle({ dataDir, logger })).toBe(built);
    expect((await stat(built)).mtimeMs).toBe(mtimeMs);
    expect(await readdir(dataDir)).toEqual([basename(built)]);
  });

  test('uses the workflow bundle in the image if it was built from the same sources', async () => {
    const own = join(dataDir, 'own');
    expect(await prepareWorkflowBundle({ dataDir: own, logger, shippedDir: dataDir })).toBe(built);
    const shippedDir = join(dataDir, 'shipped');
    for (const [folder, name] of [
      [shippedDir, 'workflow-bundle-0123456789abcdef.js'],
      [own, basename(built)],
    ] as const) {
      await mkdir(folder);
      await copyFile(built, join(folder, name));
    }
    expect(await prepareWorkflowBundle({ dataDir: own, logger, shippedDir })).toBe(join(own, basename(built)));
  });

  test('builds the workflow bundle without blocking the event loop', () => {
    // We compare a ratio, because a slow machine is slow in both. A build on the event loop would use nearly all of it.
    expect(utilization).toBeLessThan(0.9);
  });

  test('leaves no files behind if building the workflow bundle is aborted', async () => {
    const stopping = new AbortController();
    const empty = join(dataDir, 'empty');
    const making = prepareWorkflowBundle({ dataDir: empty, logger, signal: stopping.signal });
    stopping.abort();
    await expect(making).rejects.toMatchObject({ name: 'AbortError' });
    expect(await readdir(empty)).toEqual([]);
  });
});
