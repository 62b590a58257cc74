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

  test('holds the workflows and nothing that works outside of one', async () => {
    const code = await readFile(await prepareWorkflowBundle({ dataDir, logger }), 'utf8');
    expect(code).toContain('conversationIdle');
    expect(code).not.toContain('node_modules/pg/');
    expect(code).not.toContain('activities/');
  });

  test('is made once, and takes the place of an older one', async () => {
    await writeFile(join(dataDir, 'workflow-bundle-0123456789abcdef.js'), 'old');
    const first = await prepareWorkflowBundle({ dataDir, logger });
    const { mtimeMs } = await stat(first);
    expect(await prepareWorkflowBundle({ dataDir, logger })).toBe(first);
    expect((await stat(first)).mtimeMs).toBe(mtimeMs);
    expect(await readdir(dataDir)).toHaveLength(1);
  });

  test('that was made when the image was built is taken as it is, and one of other sources is not', async () => {
    const shippedDir = join(dataDir, 'shipped');
    const shipped = await prepareWorkflowBundle({ dataDir: shippedDir, logger });
    const own = join(dataDir, 'own');
    expect(await prepareWorkflowBundle({ dataDir: own, logger, shippedDir })).toBe(shipped);
    await rename(shipped, join(shippedDir, 'workflow-bundle-0123456789abcdef.js'));
    expect(await prepareWorkflowBundle({ dataDir: own, logger, shippedDir })).toBe(join(own, basename(shipped)));
  });

  test('is made while this process answers: its event loop hardly works for it', async () => {
    const before = performance.eventLoopUtilization();
    await prepareWorkflowBundle({ dataDir, logger });
    // A share, not a time: a slow machine is slow in both. Made on the loop itself, it is all of it.
    expect(performance.eventLoopUtilization(before).utilization).toBeLessThan(0.9);
  });

  test('is no longer made after an abort, and leaves nothing', async () => {
    const stopping = new AbortController();
    const making = prepareWorkflowBundle({ dataDir, logger, signal: stopping.signal });
    stopping.abort();
    await expect(making).rejects.toMatchObject({ name: 'AbortError' });
    expect(await readdir(dataDir)).toEqual([]);
  });
});
