/**
 * Tests the codec server with its real clients, i.e. the Temporal CLI, and the development server's Temporal UI in
 * Chromium.
 */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { BrowserContext, Page, Request } from 'playwright-core';
import { type CodecServer, createCodecServer } from '../../src/codec-server/codec-server.ts';
import { systemClock } from '../../src/core/time.ts';
import { createTemporal, type Temporal } from '../../src/temporal/client/temporal.ts';
import { wakeSignal } from '../../workflows/contract.ts';
import { sharedChromium } from '../support/chromium.ts';
import { rawHistory } from '../support/histories.ts';
import { run } from '../support/run.ts';
import { createTestLog, sharedTemporal } from '../support/temporal.ts';
import { ensureTemporal } from '../support/temporal-program.ts';

const shared = sharedTemporal();
const browser = sharedChromium();
const adminToken = 'admin-token-of-the-test';
const workflowId = 'learning/a';
const projectId = 'planted-0198c5f2';
const unknownKeyWorkflowId = 'learning/unknown-key';

let temporal: Temporal;
let codecServer: CodecServer;

beforeAll(async () => {
  const { server } = shared();
  const { logger } = createTestLog();
  const payloadKeys = [randomBytes(32)];
  const connection = { address: server.address, namespace: server.namespace, logger };
  temporal = createTemporal({ ...connection, payloadKeys });
  await temporal.probe();
  await temporal.start({ workflow: 'projectLearning', workflowId, input: { project_id: projectId } });
  const other = createTemporal({ ...connection, payloadKeys: [randomBytes(32)] });
  await other.start({ workflow: 'projectLearning', workflowId: unknownKeyWorkflowId, input: { project_id: projectId } });
  await other.close();
  const uiOrigins = [new URL(server.uiUrl).origin];
  const settings = { host: '127.0.0.1', port: 0, uiOrigins, publicUrl: null, adminTokens: [adminToken], payloadKeys };
  codecServer = await createCodecServer({ ...settings, clock: systemClock, logger });
});

afterAll(async () => {
  await codecServer.close();
  await temporal.close();
});

/** Opens the page of the workflow's run. Without a run ID, the UI shows a 404 for runs that aren't listed yet. */
async function openRun(page: Page, id: string): Promise<void> {
  const { server } = shared();
  const { runId } = await temporal.client.workflow.getHandle(id).describe();
  await page.goto(`${server.uiUrl}/namespaces/${server.namespace}/workflows/${encodeURIComponent(id)}/${runId}`);
}

/** Requests to the codec server that it hasn't answered yet. */
const unanswered = new Set<Request>();

function watchCodecRequests(context: BrowserContext): void {
  context.on('request', (request) => request.url().startsWith(codecServer.url) && unanswered.add(request));
  context.on('requestfinished', (request) => unanswered.delete(request));
  context.on('requestfailed', (request) => unanswered.delete(request));
}

/**
 * Waits until the UI shows whether the codec server has decoded the payloads. In two of several hundred runs, the UI
 * didn't show this within five minutes. A person would reload the page, so we do that as well, unless the UI is waiting
 * for the codec server.
 */
async function untilStatus(page: Page, status: 'error' | 'success'): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await page.getByTestId(`data-encoder-status-${status}`).waitFor({ timeout: 45_000 });
    } catch (cause) {
      expect([...unanswered].map((request) => request.url())).toEqual([]);
      if (attempt === 4) throw new Error(`the Temporal UI shows: ${await page.locator('body').textContent()}`, { cause });
      await page.reload();
    }
  }
}

async function untilShown(page: Page, text: string | RegExp): Promise<void> {
  await page.getByText(text).first().waitFor();
}

test('the Temporal UI shows an error until the user signs in, then the decrypted workflow input', async () => {
  const context = await browser().newContext();
  try {
    // This is what "Use my browser setting" in the UI's codec server settings stores.
    const settings = { endpoint: codecServer.url, includeCredentials: true, overrideRemoteCodecConfiguration: true };
    await context.addInitScript((values) => {
      for (const [name, value] of Object.entries(values)) localStorage.setItem(name, JSON.stringify(value));
    }, settings);
    watchCodecRequests(context);
    const page = await context.newPage();
    await openRun(page, workflowId);
    await untilStatus(page, 'error');
    expect(await page.content()).not.toContain(projectId);

    const signIn = await context.newPage();
    await signIn.goto(codecServer.url);
    await signIn.getByLabel('Admin token').fill(adminToken);
    await signIn.getByRole('button', { name: 'Sign in' }).click();
    await untilShown(signIn, 'You are signed in until');

    await page.reload();
    await untilShown(page, projectId);
    await untilStatus(page, 'success');

    await openRun(page, unknownKeyWorkflowId);
    await untilShown(page, /cannot be decrypted: TEMPORAL_PAYLOAD_KEY does not contain the key [0-9a-f]{16}/);

    await signIn.getByRole('button', { name: 'Sign out' }).click();
    await untilShown(signIn, 'Sign in to read decoded payloads');
    await openRun(page, workflowId);
    await untilStatus(page, 'error');
  } finally {
    await context.close();
  }
});

test('the Temporal CLI can decrypt a workflow run and send an encrypted signal', async () => {
  const { server } = shared();
  const program = await ensureTemporal();
  const options = ['--address', server.address, '--namespace', server.namespace, '--workflow-id', workflowId];
  const temporalCli = (...args: string[]): Promise<string> =>
    run(program, [...args, ...options, '--codec-endpoint', codecServer.url, '--codec-auth', `Bearer ${adminToken}`], {
      env: { HOME: shared().dataDir },
    });

  expect(await temporalCli('workflow', 'show', '--output', 'json')).toContain(
    Buffer.from(JSON.stringify({ project_id: projectId })).toString('base64'),
  );
  await temporalCli('workflow', 'signal', '--name', wakeSignal, '--input', '"planted-signal"');
  const history = rawHistory(await temporal.client.workflow.getHandle(workflowId).fetchHistory());
  expect(history).toContain('workflowExecutionSignaledEventAttributes');
  expect(history).not.toContain('planted-signal');
  expect(history.slice(history.indexOf('workflowExecutionSignaledEventAttributes'))).toContain('binary/encrypted');
});
