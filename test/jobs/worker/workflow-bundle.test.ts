import { mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { prepareWorkflowBundle } from '../../../src/jobs/worker/workflow-bundle.ts';
import { createTestLog } from '../../support/temporal.ts';

describe('the workflow bundle', () => {
  let dataDir: string;
  const { logger } = createTestLog();
  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'gateway-bundle-'));
  });
  afterEach(() => rm(dataDir, { recursive: true }));

  test('contains the workflows, but no activities and no database driver', async () => {
    const code = await readFile(await prepareWorkflowBundle({ dataDir, logger }), 'utf8');
    expect(code).toContain('conversationIdle');
    expect(code).not.toContain('node_modules/pg/');
    expect(code).not.toContain('activities/');
  });

  test('is built once and replaces an older one', async () => {
    await writeFile(join(dataDir, 'workflow-bundle-0123456789abcdef.js'), 'old');
    const first = await prepareWorkflowBundle({ dataDir, logger });
    const { mtimeMs } = await stat(first);
    expect(await prepareWorkflowBundle({ dataDir, logger })).toBe(first);
    expect((await stat(first)).mtimeMs).toBe(mtimeMs);
    expect(await readdir(dataDir)).toHaveLength(1);
  });

  test('built with the image is used if it was built from the same sources', async () => {
    const shippedDir = join(dataDir, 'shipped');
    const shipped = await prepareWorkflowBundle({ dataDir: shippedDir, logger });
    const own = join(dataDir, 'own');
    expect(await prepareWorkflowBundle({ dataDir: own, logger, shippedDir })).toBe(shipped);
    await rename(shipped, join(shippedDir, 'workflow-bundle-0123456789abcdef.js'));
    expect(await prepareWorkflowBundle({ dataDir: own, logger, shippedDir })).toBe(join(own, basename(shipped)));
  });

  test("is built outside this process's event loop", async () => {
    const before = performance.eventLoopUtilization();
    await prepareWorkflowBundle({ dataDir, logger });
    // A ratio, since a slow machine is slow in both. A build on the event loop would use nearly all of it.
    expect(performance.eventLoopUtilization(before).utilization).toBeLessThan(0.9);
  });

  test('leaves no files when its build is aborted', async () => {
    const stopping = new AbortController();
    const making = prepareWorkflowBundle({ dataDir, logger, signal: stopping.signal });
    stopping.abort();
    await expect(making).rejects.toMatchObject({ name: 'AbortError' });
    expect(await readdir(dataDir)).toEqual([]);
  });
});
