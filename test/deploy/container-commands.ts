/**
 * Runs the commands for containers in docs/operating.md as they are on the page. Stand-ins for `docker compose` and
 * `kubectl` run the rest of the command in the file tree of the image, with only the container's environment.
 * test/service/compose.test.ts runs these tests, because starting the services takes a lot of CPU time.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import pg from 'pg';
import type { ComposeRun } from '../support/compose-run.ts';
import { type ContainerStates, installContainerPrograms } from '../support/container-programs.ts';
import { readDockerfile } from '../support/dockerfile.ts';
import { eventually, jsonOf } from '../support/gateway.ts';
import { root } from '../support/gateway-process.ts';
import { postgresPrograms } from '../support/own-postgres.ts';
import { run } from '../support/run.ts';
import { ensureTemporal } from '../support/temporal-program.ts';

const services = ['gateway-1', 'gateway-2', 'worker'] as const;
const pods: Readonly<Record<string, string>> = { 'gateway-0': 'gateway-1', 'gateway-worker-7d9f': 'worker', 'postgres-0': 'postgres' };

/** All services of the compose file have to be running. The tests stop them. */
export function testContainerCommands(given: () => ComposeRun): void {
  let composed: ComposeRun;
  let folder = '';
  let page = '';
  let key = '';
  let removePrograms = async (): Promise<void> => {};

  const migrateState = async (): Promise<ContainerStates[string]> => {
    const { workdir, env } = await composed.containerOf('migrate');
    return { cwd: workdir, env, paths: {}, entrypoint: [...readDockerfile().entrypoint, 'migrate'] };
  };

  /** What the stand-ins need to know about the containers. */
  const readStates = async (): Promise<ContainerStates> => {
    const ofServices = services.map(async (name) => {
      const { workdir, data, home, env } = await composed.containerOf(name);
      const paths = { '/data': data, '/config': join(home, 'config'), '/gateway': workdir };
      const entrypoint = readDockerfile().entrypoint;
      return [name, { cwd: workdir, env, paths, port: env.PORT, pid: composed.processOf(name).child.pid ?? null, entrypoint }] as const;
    });
    const [settings = {}] = await composed.query('show unix_socket_directories');
    const plain = { cwd: folder, paths: {}, entrypoint: [] };
    const path = (programs: string): string => `${programs}:/usr/bin:/bin`;
    const { env: worker } = await composed.containerOf('worker');
    const { port } = new URL(composed.superuserUrl('gateway'));
    const current: ContainerStates = {
      ...Object.fromEntries(await Promise.all(ofServices)),
      migrate: await migrateState(),
      temporal: { ...plain, env: {} },
      postgres: {
        ...plain,
        env: { PATH: path(await postgresPrograms()), PGHOST: String(settings.unix_socket_directories), PGPORT: port },
      },
      'temporal-namespace': {
        ...plain,
        env: { PATH: path(dirname(await ensureTemporal())), HOME: folder, TEMPORAL_ADDRESS: worker.TEMPORAL_ADDRESS ?? '' },
      },
    };
    const ofPods = Object.entries(pods).flatMap(([pod, name]) => (current[name] ? [[pod, current[name]] as const] : []));
    return { ...current, ...Object.fromEntries(ofPods) };
  };

  /** Runs commands of the page on a machine that has the two programs and returns their output. */
  const runOnHost = (commands: string): Promise<string> => {
    const env = { PATH: `${join(folder, 'bin')}:/usr/bin:/bin` };
    return run('bash', ['--norc', '-euc', `exec < /dev/null\n${commands}`], { cwd: folder, env });
  };
  const commandsOf = (anchor: string): string => {
    const [, commands = ''] = new RegExp(`<a id="${anchor}"></a>\\n\\n<!-- .*? -->\\n\`\`\`sh\\n(.*?)\`\`\``, 's').exec(page) ?? [];
    expect([anchor, commands]).not.toEqual([anchor, '']);
    return commands;
  };
  const issueKey = async (): Promise<string> => {
    const { admin } = composed.processOf('gateway-1');
    return (await jsonOf<{ key: string }>(admin('POST', '/provision/teams/default/keys', { name: 'test' }))).key;
  };

  beforeAll(async () => {
    composed = given();
    page = await readFile(join(root, 'docs/operating.md'), 'utf8');
    folder = await mkdtemp(join(tmpdir(), 'gateway-host-'));
    const states = await readStates();
    removePrograms = await installContainerPrograms(join(folder, 'bin'), () => states);
    key = await issueKey();
  });
  afterAll(async () => {
    await removePrograms();
    await rm(folder, { recursive: true, force: true });
  });

  it('the `gateway` command is on the path in containers', async () => {
    expect(await runOnHost('docker compose exec gateway-1 gateway --version')).toBe(
      await runOnHost('kubectl exec gateway-0 -- gateway --version'),
    );
    const files = await runOnHost('docker compose exec gateway-1 ls /gateway');
    expect(files.trim().split('\n').toSorted()).toEqual(['LICENSE', 'activities', 'node_modules', 'package.json', 'src', 'workflows']);
  });

  it('each deployment can print a link for the first sign-in', async () => {
    expect((await runOnHost(commandsOf('first-sign-in'))).match(/http:\S+\/console\/sign-in\/link\?token=\S+/g)).toHaveLength(2);
  });

  it('commands in a container can read a file on the host', async () => {
    const row = { litellm_provider: 'one', mode: 'chat', input_cost_per_token: 1e-6, output_cost_per_token: 1e-6 };
    await writeFile(join(folder, 'prices.json'), JSON.stringify({ 'one/priced': row }));
    await runOnHost(commandsOf('with-a-file'));
    expect(await runOnHost('docker compose exec gateway-1 gateway catalog list')).toContain('one/priced');
  });

  it('the commands in the table of deployment steps work', async () => {
    const [, table = ''] = page.split('| Step | Compose | Kubernetes |\n');
    const [rows = ''] = table.split('\n\n', 1);
    const cells = rows
      .split('\n')
      .slice(1)
      .flatMap((row) => row.split('|').slice(2, -1));
    const commands = cells.flatMap((cell) => /^ `((?:for|docker|kubectl) [^`]+)`/.exec(cell)?.[1] ?? []);
    expect(commands).toHaveLength(34);
    const outputs = new Map<string, string>();
    for (const command of commands) outputs.set(command, await runOnHost(command));
    const outputOf = (pattern: RegExp): string[] => [...outputs].filter(([command]) => pattern.test(command)).map(([, output]) => output);
    for (const output of outputOf(/readyz/)) expect(JSON.parse(output)).toMatchObject({ status: 'ready' });
    for (const output of outputOf(/df -h/)) expect(output).toMatch(/Avail.*\/journal$/ms);
    for (const output of outputOf(/9464/)) expect(output).toMatch(/^gateway_worker_polling 1$/m);
    for (const output of outputOf(/pg_isready/)) expect(output).toMatch(/accepting connections/);
    expect(outputOf(/run --rm migrate/)).toEqual(['The schema was up to date.\n']);
    expect(outputOf(/check-config/)[0]).toMatch(/standard/);
    for (const output of outputOf(/cluster health/)) expect(output).toMatch(/SERVING/);
    const reloads = (name: string): number =>
      composed
        .processOf(name)
        .logs()
        .filter(({ msg }) => msg === 'configuration reloaded').length;
    await eventually(async () => expect(services.map(reloads)).toEqual([2, 1, 1]));
  });

  it('every documented `gateway …` command works in a deployment', async () => {
    const commands = [...page.replace(/^```.*?^```$/gms, '').matchAll(/`gateway ([a-z-]+(?: [^`…]+)?)`/g)].map(
      ([, command = '']) => command,
    );
    const values: Record<string, string> = {
      process: '01a205c0-a422-747d-aedc-d2e107176c4d',
      batch: '01a205c0-a422-747d-aedc-d2e107176c4d',
      project: 'default',
      prefix: (await issueKey()).split('-')[2] ?? '',
      seconds: '60',
      model: 'one/echo',
    };
    const nameOf = (command: string): string => command.replace(/ +[-<].*/, '');
    const complete = commands
      // The page names these without their arguments, or they are processes of their own.
      .filter((command) => !/^(?:serve|worker|migrate|check-config|catalog import|usage reprice|batches replay|audit|calls)$/.test(command))
      // `docs.test.ts` checks the options, so we run each command only once.
      .filter((command, index, all) => all.findIndex((other) => nameOf(other) === nameOf(command)) === index)
      .map((command) => command.replace(/<(\w+)>/g, (_whole, name: string) => values[name] ?? ''));
    expect(complete.length).toBeGreaterThan(9);
    // Both prefixes start the same program with the same arguments, so each command runs in only one of the
    // deployments.
    const prefixes = ['docker compose exec gateway-1 gateway', 'kubectl exec gateway-0 -- gateway'];
    const failures: string[] = [];
    for (const [index, command] of complete.entries())
      await runOnHost(`${prefixes[index % 2]} ${command}`).catch((error: unknown) => failures.push(String(error)));
    // The service answers these two commands that there is nothing with that id.
    expect(failures).toEqual([
      expect.stringMatching(/: gateway: the process does not hold any leases$/),
      expect.stringMatching(/: gateway: no such batch$/),
    ]);
  });

  /**
   * Returns the ids of the calls that were answered. The last ones are only in the journal, because nothing can be
   * stored meanwhile.
   */
  const backUp = async (anchor: string): Promise<string[]> => {
    const lock = new pg.Client({ connectionString: composed.superuserUrl('gateway') });
    await lock.connect();
    try {
      await lock.query('begin; lock table calls in exclusive mode');
      const ids: string[] = [];
      for (let n = 0; n < 5; n += 1) {
        const body = { model: 'one/echo', messages: [{ role: 'user', content: 'hi' }] };
        const response = await composed.processOf('gateway-1').call(key, '/v1/chat/completions', body);
        expect([response.status, (await response.text()).length > 0]).toEqual([200, true]);
        ids.push(response.headers.get('x-gateway-call-id') ?? '');
      }
      await runOnHost(commandsOf(anchor));
      return ids;
    } finally {
      await lock.end();
    }
  };
  const stop = async (): Promise<void> => {
    const statuses = Object.values(await composed.stop());
    expect(statuses).toEqual(statuses.map(() => 0));
  };
  /** Simulates new volumes: an empty database as `create-databases.sh` leaves it, and empty data directories. */
  const loseEverything = async (withExtension: boolean): Promise<void> => {
    await stop();
    await composed.query('drop database gateway', [], 'postgres');
    await composed.query('create database gateway owner gateway', [], 'postgres');
    if (withExtension) await composed.query('create extension vector');
    for (const name of services) await composed.emptyVolume(name);
  };
  const storedOf = async (ids: readonly string[]): Promise<number> => {
    const [counted] = await composed.query('select count(*)::integer as n from calls where id = any($1)', [ids]);
    return Number(counted?.n);
  };

  it('a Compose backup can be restored into new volumes', async () => {
    const ids = await backUp('back-up-compose');
    await loseEverything(true);
    await runOnHost(commandsOf('restore-compose'));
    expect(await storedOf(ids)).toBe(0);
    // The calls are in the journal of this replica.
    await composed.start('gateway-1');
    await eventually(async () => expect(await storedOf(ids)).toBe(5));
  });

  it('a Kubernetes backup can be restored', async () => {
    const ids = await backUp('back-up-kubernetes');
    await loseEverything(false);
    await runOnHost(commandsOf('restore-kubernetes'));
    expect(await storedOf(ids)).toBe(0);
    // The commands copy all journals into the data directory of this replica.
    await composed.start('gateway-1');
    await runOnHost(`rm -f journal-gateway-1.tar journal-gateway-2.tar journal-worker.tar\n${commandsOf('restore-journals-kubernetes')}`);
    await eventually(async () => expect(await storedOf(ids)).toBe(5));
    await stop();
  });
}
