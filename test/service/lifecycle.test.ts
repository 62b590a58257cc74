/** Command-line options, and unusable data directories: what the operator sees. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { createProcesses, root } from '../support/gateway-process.ts';

const processes = createProcesses();
afterAll(processes.stopAll);

const main = join(root, 'src', 'main.ts');

describe('options', () => {
  it.each(['start', 'serve', 'worker', 'migrate', 'demo-vendor'])('%s --help prints the usage and starts nothing', async (command) => {
    const home = await processes.home('empty');
    const gateway = await processes.start(command, { home, program: [process.execPath, main, command, '--help'] });
    expect([await gateway.exited, gateway.stdout().split('\n')[0], gateway.stderr()]).toEqual([0, 'Usage: gateway <command>', '']);
  });

  it.each(['start', 'serve', 'worker', 'migrate', 'demo-vendor'])('%s with an unknown option prints one line', async (command) => {
    const home = await processes.home('empty');
    const gateway = await processes.start(command, { home, program: [process.execPath, main, command, '--colour'] });
    expect([await gateway.exited, gateway.stdout(), gateway.stderr()]).toEqual([1, '', "gateway: Unknown option '--colour'\n"]);
  });
});

describe('a data directory with an entry of the wrong type', () => {
  it.each([
    ['db.lock', 'folder', /^gateway: the embedded database cannot be opened: cannot lock \S+: [^\n]+\n$/],
    ['admin-token', 'folder', /^gateway: the admin token of \S+ cannot be read: EISDIR[^\n]+\n$/],
    ['addresses', 'file', /^gateway: \S+ cannot be written: EEXIST[^\n]+\n$/],
    ['journal', 'file', /^gateway: the data directory [^\n]+ENOTDIR[^\n]+\n$/],
  ])('%s that is a %s: one line, exit status 1', async (name, kind, complaint) => {
    // Without a token in the environment, so that the token file is read.
    const home = await processes.home(name === 'db.lock' ? 'empty' : 'migrated');
    const path = join(home, 'data', name);
    await (kind === 'file' ? writeFile(path, '') : mkdir(path, { recursive: true }));
    const gateway = await processes.start('start', { home, env: { GATEWAY_ADMIN_TOKEN: '' } });
    expect([await gateway.exited, gateway.stderr()]).toEqual([1, expect.stringMatching(complaint)]);
  });
});
