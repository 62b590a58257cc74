import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { servesNamespace } from '../../../src/temporal/connection/temporal-connection.ts';
import { type DevServer, startDevServer } from '../../../src/temporal/dev-server/dev-server.ts';
import { readRecord } from '../../../src/temporal/dev-server/dev-server-files.ts';
import { identifyProcess, isRunning, type ProcessIdentity, terminateProcess } from '../../../src/temporal/dev-server/processes.ts';
import { createTestLog, until } from '../../support/temporal.ts';
import { ensureTemporal } from '../../support/temporal-program.ts';

/**
 * A gateway reduced to its dev server. It prints the server's record, stops it on SIGTERM, exits on SIGUSR2 and ignores
 * Ctrl-C.
 */
const parentProgram = `
const [, devServer, connection, binary, dataDir] = process.argv;
const { startDevServer } = await import(devServer);
const { servesNamespace } = await import(connection);
const silent = () => {};
const logger = { debug: silent, info: silent, warn: silent, error: silent };
const server = await startDevServer({ binary, dataDir, logger, servesNamespace });
process.on('SIGINT', silent);
process.on('SIGTERM', () => server.stop());
process.on('SIGUSR2', () => process.exit(1));
console.log(JSON.stringify({ pid: server.pid(), address: server.address, namespace: server.namespace }));
`;

describe('the Temporal dev server', () => {
  let dataDir: string;
  let binary: string;
  const { logger, lines } = createTestLog();
  const servers: DevServer[] = [];

  const start = async (onRestart?: () => void): Promise<DevServer> => {
    const server = await startDevServer({ binary, dataDir, logger, servesNamespace, ...(onRestart && { onRestart }) });
    servers.push(server);
    return server;
  };
  const startInOtherProcess = async (): Promise<{ kill(signal: NodeJS.Signals): Promise<void>; pid: number; server: Started }> => {
    const modules = ['dev-server/dev-server', 'connection/temporal-connection'].map(
      (name) => new URL(`../../../src/temporal/${name}.ts`, import.meta.url).href,
    );
    const args = ['--input-type=module', '--eval', parentProgram, ...modules, binary, dataDir];
    const parent = spawn(process.execPath, args, { detached: true, stdio: ['ignore', 'pipe', 'inherit'], env: {} });
    const [line] = await once(createInterface(parent.stdout), 'line');
    const pid = parent.pid ?? 0;
    return {
      pid,
      server: JSON.parse(String(line)),
      kill: async (signal) => {
        process.kill(pid, signal);
        if (parent.exitCode === null && parent.signalCode === null) await once(parent, 'exit');
      },
    };
  };

  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'gateway-dev-server-'));
    binary = await ensureTemporal();
    lines.length = 0;
  });
  afterEach(async () => {
    await Promise.all(servers.splice(0).map((server) => server.stop()));
    const remaining = await readRecord(dataDir); // Left over from a test that failed before it stopped its server.
    if (remaining) await terminateProcess(remaining, 1_000);
    await rm(dataDir, { recursive: true });
  });

  test('serves the web UI and stops along with the gateway', async () => {
    const server = await start();
    const id = (await readFile(join(dataDir, 'id'), 'utf8')).trim();
    expect(server.namespace).toBe(`gateway-${id}`);
    expect((await stat(join(dataDir, 'id'))).mode & 0o777).toBe(0o600);
    expect((await stat(join(dataDir, 'temporal.json'))).mode & 0o777).toBe(0o600);
    await untilServes(server);
    expect(await servesNamespace(server.address, 'gateway-of-another')).toBe(false);
    await until('the UI responds', async () => (await fetch(server.uiUrl).catch(() => null))?.ok === true);
    const pid = server.pid();
    await server.stop();
    expect(await identifyProcess(pid)).toBeNull();
  });

  test("doesn't pass vendor keys to the Temporal dev server", async () => {
    const server = await start();
    const environment = await readFile(`/proc/${server.pid()}/environ`, 'utf8').catch(() => `HOME=${dataDir}\0`); // Only Linux shows it.
    expect(environment).toBe(`HOME=${dataDir}\0`);
  });

  test('uses the running dev server again after a kill -9 of the gateway', async () => {
    const parent = await startInOtherProcess();
    await parent.kill('SIGKILL');
    const server = await start();
    expect(server.reattached).toBe(true);
    expect({ pid: server.pid(), address: server.address, namespace: server.namespace }).toEqual(parent.server);
    await server.stop();
    expect(await identifyProcess(parent.server.pid)).toBeNull();
  });

  test('replaces a dev server that runs with a different namespace', async () => {
    const parent = await startInOtherProcess();
    await parent.kill('SIGKILL');
    await writeFile(join(dataDir, 'id'), '0123456789ab\n');
    const server = await start();
    expect(server).toMatchObject({ reattached: false, namespace: 'gateway-0123456789ab' });
    expect(await identifyProcess(parent.server.pid)).toBeNull();
  });

  test("doesn't kill another program that has reused the process id", async () => {
    const other = spawn('sleep', ['3600'], { stdio: 'ignore' });
    try {
      const record = { pid: other.pid, startTime: '1', address: '127.0.0.1:1', uiUrl: 'http://127.0.0.1:2', namespace: 'gateway-x' };
      await writeFile(join(dataDir, 'temporal.json'), JSON.stringify(record));
      await start();
      expect(other.exitCode).toBeNull();
      expect(other.signalCode).toBeNull();
    } finally {
      other.kill();
    }
  });

  test('restarts a dead dev server at the same address', async () => {
    let restarts = 0;
    const server = await start(() => restarts++);
    const { pid, startTime } = await identity(server);
    process.kill(pid, 'SIGKILL');
    await until('it is restarted', () => restarts === 1);
    expect(await isRunning({ pid, startTime })).toBe(false);
    await untilServes(server);
    expect(lines.filter(({ level }) => level === 'warn')).toHaveLength(1);
  });

  test.each(['SIGTERM', 'SIGINT'] as const)("doesn't restart a dev server that somebody stopped with %s", async (signal) => {
    const server = await start();
    process.kill(server.pid(), signal);
    await until('its end is noticed', () => server.isStopped());
    expect(await identifyProcess(server.pid())).toBeNull();
    expect(lines.filter(({ level }) => level === 'warn').map(({ message }) => message)).toEqual([
      'Temporal dev server was stopped; durable work is paused until the gateway restarts',
    ]);
  });

  test('ends the dev server when the gateway exits without stopping it', async () => {
    const parent = await startInOtherProcess();
    await parent.kill('SIGUSR2');
    await until('it has ended', async () => (await identifyProcess(parent.server.pid)) === null);
  });

  test("doesn't pass Ctrl-C from the terminal on to the dev server", async () => {
    const parent = await startInOtherProcess();
    process.kill(-parent.pid, 'SIGINT'); // Sent to the whole group, like a terminal does.
    await untilServes(parent.server);
    await parent.kill('SIGTERM');
    expect(await identifyProcess(parent.server.pid)).toBeNull();
  });

  test('refuses to start a second dev server in the same data directory', async () => {
    const parent = await startInOtherProcess();
    try {
      await expect(start()).rejects.toThrow('another gateway process is already running the Temporal dev server');
    } finally {
      await parent.kill('SIGTERM');
    }
  });

  test('leaves no process behind if the dev server fails to start', async () => {
    await expect(startDevServer({ binary: '/bin/false', dataDir, logger, servesNamespace })).rejects.toThrow(
      /did not start in time|exited immediately/,
    );
  });
});

interface Started {
  readonly pid: number;
  readonly address: string;
  readonly namespace: string;
}

/** A request can time out on a busy machine. */
function untilServes({ address, namespace }: Pick<Started, 'address' | 'namespace'>): Promise<void> {
  return until('the server responds', () => servesNamespace(address, namespace));
}

async function identity(server: DevServer): Promise<ProcessIdentity> {
  const found = await identifyProcess(server.pid());
  if (!found) throw new Error('the server does not run');
  return found;
}
