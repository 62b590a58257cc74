/** Tests command-line options and the deletion of quarantined records. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { encodeFrame } from '../../src/journal/frame.ts';
import { eventually, jsonOf, type TestGateway, withGateway } from '../support/gateway.ts';
import { createProcesses, root } from '../support/gateway-process.ts';

const processes = createProcesses();
afterAll(processes.stopAll);

const main = join(root, 'src', 'main.ts');

describe('command-line options', () => {
  it.each(['start', 'serve', 'worker', 'migrate', 'demo-vendor'])('prints the usage for %s --help', async (command) => {
    const home = await processes.home('empty');
    const gateway = await processes.start(command, { home, program: [process.execPath, main, command, '--help'] });
    expect([await gateway.exited, gateway.stdout().split('\n')[0], gateway.stderr()]).toEqual([0, 'Usage: gateway <command>', '']);
  });

  it.each(['start', 'serve', 'worker', 'migrate', 'demo-vendor'])(
    'prints one error line for %s with an unknown option',
    async (command) => {
      const home = await processes.home('empty');
      const gateway = await processes.start(command, { home, program: [process.execPath, main, command, '--colour'] });
      expect([await gateway.exited, gateway.stdout(), gateway.stderr()]).toEqual([1, '', "gateway: Unknown option '--colour'\n"]);
    },
  );
});

describe('quarantined records', () => {
  it('deletes quarantined records once their retention period is over', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'gateway-quarantine-'));
    const list = async ({ admin }: TestGateway): Promise<unknown> =>
      (await jsonOf<{ data: unknown }>(admin('GET', '/provision/quarantine'))).data;
    try {
      await withGateway({ dataDir }, async (gateway) => {
        const { id } = await jsonOf<{ id: string }>(gateway.admin('GET', '/provision/teams/acme'));
        const folder = join(dataDir, 'journal', 'quarantine');
        await mkdir(folder, { recursive: true });
        const record = { startedAt: Date.parse('2026-01-01T00:00:00Z'), projectId: id };
        // More calls than the stack holds as arguments.
        const records = Array.from({ length: 160_000 }, () => record);
        await writeFile(join(folder, 'a.record'), Buffer.concat(encodeFrame(JSON.stringify(records), null)));
        expect(await list(gateway)).toMatchObject([{ file: 'a.record', projects: ['acme'], oldest_call: '2026-01-01T00:00:00Z' }]);
        expect((await gateway.admin('PUT', '/provision/teams/acme/memory', { delete_conversations_after_days: 1 })).status).toBe(200);
      });
      await withGateway({ dataDir }, (gateway) => eventually(async () => expect(await list(gateway)).toEqual([])));
    } finally {
      await rm(dataDir, { recursive: true });
    }
  });
});
