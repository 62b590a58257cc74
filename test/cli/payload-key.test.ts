import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { runPayloadKeyCommand } from '../../src/cli/payload-key-command.ts';
import { ConfigError } from '../../src/config/config.ts';
import { createTemporal, type Temporal } from '../../src/temporal/client/temporal.ts';
import { keyFingerprint } from '../../src/temporal/payloads/encryption.ts';
import { memoryQueue, wakeSignal } from '../../workflows/contract.ts';
import { createTestLog, sharedTemporal, until } from '../support/temporal.ts';

const [oldKey, newKey, lostKey] = [randomBytes(32), randomBytes(32), randomBytes(32)];
const [oldId, newId, lostId] = [oldKey, newKey, lostKey].map(keyFingerprint);
const scheduleId = 'a-schedule';

let written = '';
let errors = '';
beforeEach(() => {
  [written, errors] = ['', ''];
});

function payloadKey(args: readonly string[], env: Readonly<Record<string, string>>): Promise<number> {
  [written, errors] = ['', ''];
  const write = (text: string): void => {
    written += text;
  };
  const writeError = (text: string): void => {
    errors += text;
  };
  return runPayloadKeyCommand(args, env, { write, writeError });
}

/** Returns a value for TEMPORAL_PAYLOAD_KEY. */
function settingOf(...keys: readonly Uint8Array[]): string {
  return keys.map((key) => Buffer.from(key).toString('base64')).join(',');
}

describe('Temporal payloads encrypted with several keys', () => {
  const shared = sharedTemporal();
  const clients: Temporal[] = [];

  beforeAll(async () => {
    const { server } = shared();
    const { logger } = createTestLog();
    const connect = async (...payloadKeys: Uint8Array[]): Promise<Temporal> => {
      const temporal = createTemporal({ address: server.address, namespace: server.namespace, logger, payloadKeys });
      clients.push(temporal);
      await temporal.probe();
      return temporal;
    };
    const start = (temporal: Temporal, name: string): Promise<unknown> =>
      temporal.start({ workflow: 'projectLearning', workflowId: `learning/${name}`, input: { project_id: name } });
    const [before, after, lost, plain] = await Promise.all([connect(oldKey), connect(newKey), connect(lostKey), connect()]);
    await Promise.all([start(before, 'old-1'), start(before, 'old-2'), start(after, 'new'), start(after, 'both'), start(plain, 'plain')]);
    await start(lost, 'lost');
    await before.client.workflow.getHandle('learning/both').signal(wakeSignal, { project_id: 'a' });
    await before.client.schedule.create({
      scheduleId,
      spec: { calendars: [{ hour: 3 }] },
      action: {
        type: 'startWorkflow',
        workflowType: 'dailyCleanup',
        workflowId: 'cleanup/daily',
        taskQueue: memoryQueue,
        args: [{ step: null }],
      },
    });
    await until('all runs are listed', async () => (await Array.fromAsync(plain.client.workflow.list())).length === 6);
  });
  afterAll(async () => {
    await Promise.all(clients.map((client) => client.close()));
  });

  function environment(...keys: readonly Uint8Array[]): Record<string, string> {
    const { address, namespace } = shared().server;
    return { TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: namespace, TEMPORAL_PAYLOAD_KEY: settingOf(...keys) };
  }

  async function terminate(workflowId: string): Promise<void> {
    const { workflow } = shared().temporal.client;
    await workflow.getHandle(workflowId).terminate();
    await until('the run is listed as closed', async () => {
      const open = await Array.fromAsync(workflow.list({ query: `WorkflowId = "${workflowId}" and ExecutionStatus = "Running"` }));
      return open.length === 0;
    });
  }

  test('refuses to remove a payload key that workflow runs still need', async () => {
    expect(await payloadKey(['check', '--json'], environment(newKey, oldKey))).toBe(1);
    const report = JSON.parse(written);
    expect(report).toMatchObject({ runs: 6, schedules: 1 });
    expect(report.keys).toEqual([
      { id: newId, configured: true, runs: 2, schedules: 0, examples: expect.any(Array), advice: 'keep, because it encrypts new payloads' },
      { id: oldId, configured: true, runs: 3, schedules: 1, examples: expect.any(Array), advice: 'keep until these runs have ended' },
      {
        id: lostId,
        configured: false,
        runs: 1,
        schedules: 0,
        examples: ['learning/lost'],
        advice: expect.stringContaining('add this key'),
      },
    ]);
    expect(report.keys[1].examples.toSorted()).toEqual([scheduleId, 'learning/both', 'learning/old-1', 'learning/old-2']);

    // We act like an operator of `npm start`, who finds the development server through the data directory.
    await terminate('learning/lost');
    const { dataDir } = shared();
    expect(await payloadKey(['check'], { GATEWAY_DATA_DIR: dataDir, TEMPORAL_PAYLOAD_KEY: settingOf(newKey, oldKey) })).toBe(0);
    expect(written).toMatch(/^5 open runs, 1 schedule\n/);
    expect(written).toMatch(new RegExp(`${oldId} +yes +3 +1 +keep until these runs have ended`));

    expect(await payloadKey(['rotate', '--remove'], environment(newKey, oldKey))).toBe(1);
    expect(written).toBe('');
    expect(errors).toContain(`gateway: cannot remove ${oldId}: open runs or schedules still need it`);

    await Promise.all(['old-1', 'old-2', 'both'].map((name) => terminate(`learning/${name}`)));
    await shared().temporal.client.schedule.getHandle(scheduleId).delete();
    expect(await payloadKey(['rotate', '--remove'], environment(newKey, oldKey))).toBe(0);
    expect(written).toBe(`TEMPORAL_PAYLOAD_KEY=${settingOf(newKey)}\n`);
    expect(errors).toContain(oldId);
  });

  test("`payload-key check` prints a one-line error if the namespace doesn't exist", async () => {
    expect(await payloadKey(['check'], { ...environment(newKey), TEMPORAL_NAMESPACE: 'absent' })).toBe(1);
    expect(errors).toMatch(/^gateway: cannot read from Temporal at \S+: .*absent.*\n$/);
  });
});

test('`payload-key rotate --promote` makes the new key the first one', async () => {
  expect(await payloadKey(['rotate'], { TEMPORAL_PAYLOAD_KEY: settingOf(oldKey) })).toBe(0);
  const [, appended = ''] = /^TEMPORAL_PAYLOAD_KEY=(\S+)\n$/.exec(written) ?? [];
  const [first, added = '', ...more] = appended.split(',');
  expect([first, more]).toEqual([settingOf(oldKey), []]);
  expect(Buffer.from(added, 'base64')).toHaveLength(32);
  expect(errors).not.toContain(added);

  expect(await payloadKey(['rotate', '--promote'], { TEMPORAL_PAYLOAD_KEY: appended })).toBe(0);
  expect(written).toBe(`TEMPORAL_PAYLOAD_KEY=${added},${settingOf(oldKey)}\n`);
  const addedId = keyFingerprint(Buffer.from(added, 'base64'));
  expect(errors).toContain(`The key ${addedId} is now first and encrypts new payloads in place of ${oldId}.`);
  expect(errors).not.toContain(added);

  expect(await payloadKey(['rotate'], { TEMPORAL_PAYLOAD_KEY: appended })).toBe(1);
  expect(errors).toBe(
    'gateway: TEMPORAL_PAYLOAD_KEY already has 2 keys; finish the current rotation first, with rotate --promote and rotate --remove\n',
  );
});

test('`payload-key rotate` generates the first key if there is none', async () => {
  expect(await payloadKey(['rotate'], {})).toBe(0);
  expect(written).toMatch(/^TEMPORAL_PAYLOAD_KEY=[A-Za-z0-9+/]{43}=\n$/);
  expect(await payloadKey(['rotate', '--promote'], {})).toBe(1);
});

test("`payload-key check` prints a one-line error if Temporal isn't configured or reachable", async () => {
  expect(await payloadKey(['check'], { GATEWAY_DATA_DIR: '/nonexistent' })).toBe(1);
  expect(errors).toMatch(/^gateway: no Temporal server found: set TEMPORAL_ADDRESS.*\n$/);
  expect(await payloadKey(['check'], { TEMPORAL_ADDRESS: '127.0.0.1:1' })).toBe(1);
  expect(errors).toMatch(/^gateway: cannot read from Temporal at 127\.0\.0\.1:1: .*\n$/);
});

test('reports all invalid `payload-key` options and settings together', async () => {
  const error: unknown = await payloadKey(['check', 'x', '--promote', '--remove'], { TEMPORAL_PAYLOAD_KEY: 'short' }).then(
    () => null,
    (reason: unknown) => reason,
  );
  expect(error instanceof ConfigError ? error.errors : []).toEqual([
    'unexpected argument "x"',
    '--promote and --remove are only allowed with rotate',
    'use either --promote or --remove, not both',
    expect.stringContaining('TEMPORAL_PAYLOAD_KEY: must be 32 random bytes in base64'),
  ]);
});
