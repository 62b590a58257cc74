/**
 * Upgrades a running service from the previous release and goes back. Also starts on a schema that a release doesn't
 * support, and restores a backup that was made under load.
 */
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { Database } from '../../src/db/database.ts';
import { checkSchema, migrate } from '../../src/db/migrate.ts';
import { createCallLoad } from '../support/call-load.ts';
import { eventually, jsonOf } from '../support/gateway.ts';
import { createProcesses, type GatewayProcess, root } from '../support/gateway-process.ts';
import { createTestDatabase, describePostgres, openTestDatabase } from '../support/postgres.ts';
import { ensurePostgres } from '../support/postgres-install.ts';
import { extractPreviousRelease, previousRelease, type ReleaseSource, readPreviousRelease } from '../support/previous-release.ts';
import { run } from '../support/run.ts';
import { createScriptedVendor, type ScriptedVendor } from '../support/scripted-vendor/server.ts';

const callLimit = 40;

interface Backup {
  /** Two keys: one without a limit that matters, and one with `callLimit`. */
  readonly plain: string;
  readonly limited: string;
  /** Ids of calls that were answered before the backup started. */
  readonly before: readonly string[];
  /** How many calls of the limited key were admitted before it. */
  readonly admitted: number;
}

type Service = GatewayProcess & { readonly dataDir: string };

describePostgres('an upgrade under load', () => {
  const processes = createProcesses();
  const cleanups: (() => Promise<unknown>)[] = [];
  let databaseUrl = '';
  let database: Database;
  let vendor: ScriptedVendor;
  let release: ReleaseSource;
  let backup: Backup | null = null;
  let backupFolder = '';
  let postgresBin = '';

  beforeAll(async () => {
    release = await extractPreviousRelease();
    cleanups.push(release.remove);
    backupFolder = await mkdtemp(join(tmpdir(), 'gateway-backup-'));
    cleanups.push(() => rm(backupFolder, { recursive: true }));
    postgresBin = await ensurePostgres().catch(() => '');
    vendor = await createScriptedVendor();
    cleanups.push(vendor.close);
    const shared = await createTestDatabase('empty');
    cleanups.push(shared.drop);
    databaseUrl = shared.url;
    database = openTestDatabase(databaseUrl, 2);
    cleanups.push(database.close, processes.stopAll);
  });
  afterAll(async () => {
    for (const cleanup of cleanups.reverse()) await cleanup();
  });

  const start = async (command: string, version: 'previous' | 'this', at: { home?: string; url?: string } = {}): Promise<Service> => {
    const home = at.home ?? (await processes.home('empty'));
    await writeFile(
      join(home, 'gateway.yaml'),
      `providers: { one: { base_url: ${vendor.url}/v1, api_key: any, dialect: chat } }\nmodels: { one/echo: { input: 1, output: 1 } }\n`,
    );
    const env = { DATABASE_URL: at.url ?? databaseUrl, ...(version === 'previous' && release.env) };
    const gateway = await processes.start(command, { home, env, ...(version === 'previous' && { program: release.program(command) }) });
    return Object.assign(gateway, { dataDir: join(home, 'data') });
  };

  /** Returns the commands in docs/operating.md after the anchor, one per line. */
  const commandsOf = async (anchor: string): Promise<string> => {
    const page = await readFile(join(root, 'docs', 'operating.md'), 'utf8');
    const commands = new RegExp(`<a id="${anchor}"></a>\\n\\n(?:<!-- .*? -->\\n)?\`\`\`sh\\n(.*?)\`\`\``, 's').exec(page)?.[1] ?? '';
    expect(commands).not.toBe('');
    return commands;
  };

  /** Runs the commands in a shell in which `gateway` is the one of this clone. */
  const runCommands = async (commands: string, env: Record<string, string>, folder = backupFolder): Promise<void> => {
    const gateway = `gateway() { '${process.execPath}' '${join(root, 'src', 'main.ts')}' "$@"; }\n`;
    const path = [postgresBin, process.env.PATH].filter(Boolean).join(delimiter);
    await run('bash', ['-euc', gateway + commands], { cwd: folder, env: { ...env, PATH: path, GATEWAY_TEMPORAL: 'off' } });
  };

  /**
   * Backs up while calls are running. The last calls are only in the journal, because nothing can be stored meanwhile.
   */
  const backUp = async (gateway: Service, { answered, ...given }: Omit<Backup, 'before'> & { answered(): readonly string[] }) =>
    database.transaction(async (tx): Promise<Backup> => {
      await tx.query('lock table calls in exclusive mode');
      const [row] = await tx.query<{ stored: number }>('select count(*)::integer as stored from calls');
      await eventually(async () => expect(answered().length).toBeGreaterThan((row?.stored ?? 0) + 20));
      const before = [...answered()];
      await runCommands(await commandsOf('back-up'), { DATABASE_URL: databaseUrl, GATEWAY_DATA_DIR: gateway.dataDir });
      return { ...given, before };
    });

  /**
   * Returns the calls that are missing from the backup in the worst case, in which the service stores and deletes its
   * whole journal between the two commands of the backup.
   */
  const findMissing = async (ids: readonly string[], gateway: Service): Promise<string[]> => {
    const folder = join(backupFolder, 'late');
    await mkdir(folder);
    for (const part of ['journal.tar', 'gateway.dump']) await copyFile(join(backupFolder, part), join(folder, part));
    const [, second = ''] = (await commandsOf('back-up')).split('\n');
    const commands = `${second}\npg_restore --data-only --file stored.sql gateway.dump\n`;
    await runCommands(commands, { DATABASE_URL: databaseUrl, GATEWAY_DATA_DIR: gateway.dataDir }, folder);
    const parts = await Promise.all(['journal.tar', 'stored.sql'].map((part) => readFile(join(folder, part), 'latin1')));
    return ids.filter((id) => !parts.some((text) => text.includes(id)));
  };

  it("doesn't lose any call during an upgrade and a downgrade", async () => {
    const setup = await start('migrate', 'previous');
    expect([await setup.exited, setup.stderr()]).toEqual([0, '']);
    const oldSchema = await schemaOf(database);
    const old = await start('serve', 'previous');
    await old.admin('PUT', '/provision/teams/acme', { cache: { enabled: false } });
    const issue = async (ceilings: object): Promise<string> =>
      (await jsonOf<{ key: string }>(old.admin('POST', '/provision/teams/acme/keys', { name: 'load', ceilings }))).key;
    const [plain, limited] = [await issue({ calls: 1_000_000, cost: 1_000 }), await issue({ calls: callLimit })];
    const load = createCallLoad(plain, [old]);
    const statuses: number[] = [];
    const spend = async (count: number, gateways: readonly GatewayProcess[]): Promise<void> => {
      statuses.push(...(await spendOf(limited, count, gateways)));
    };
    try {
      await load.untilSent(20);
      await spend(10, [old]);

      const { applied } = await migrate(database);
      expect(applied).toBe((await schemaOf(database)) - oldSchema);
      await load.untilSent(20);
      await spend(5, [old]);

      const young = await start('serve', 'this');
      expect(young.logs()).toContainEqual(expect.objectContaining({ msg: 'listening', version: expect.stringMatching(/^\d+\.\d+\.\d+/) }));
      load.use([old, young]);
      await load.untilSent(40);
      await spend(10, [old, young]);
      await load.use([young]);
      // A process on a busy machine may end before it has stored all of its calls. They are in its journal then, which
      // isn't part of the backup. The calls that the other process handles meanwhile don't count.
      const served = [...load.ids()];
      await eventually(async () => {
        const [row] = await database.query<{ stored: number }>(
          'select count(*)::integer as stored from calls where id = any($1::uuid[]) or key_prefix = $2::text',
          [served, limited.split('-')[2]],
        );
        expect(row?.stored).toBe(served.length + statuses.filter((status) => status === 200).length);
      });
      expect(await old.end('SIGTERM')).toBe(0);
      await load.untilSent(20);
      backup = await backUp(young, { plain, limited, answered: load.ids, admitted: statuses.filter((status) => status === 200).length });

      const back = await start('serve', 'previous');
      await load.use([young, back]);
      await load.untilSent(40);
      await spend(callLimit, [young, back]);
      await load.use([back]);
      expect(await young.end('SIGTERM')).toBe(0);
      expect(await findMissing(backup.before, young)).toEqual([]);
      await load.untilSent(20);
      await spend(5, [back]);
      await load.stop();

      expect(load.failures()).toEqual([]);
      expect(statuses.filter((status) => status === 200)).toHaveLength(callLimit);
      expect(new Set(statuses)).toEqual(new Set([200, 429]));
      // On a busy machine, a process may respond before it has stored all of its calls.
      await eventually(async () => {
        const usage = await jsonOf<{ by_model: { calls: number }[] }>(back.admin('GET', '/provision/teams/acme/usage'));
        expect(usage.by_model).toEqual([expect.objectContaining({ calls: load.ids().length + callLimit })]);
      });
      expect(await back.end('SIGTERM')).toBe(0);
    } finally {
      await load.stop();
    }
    const rows = await database.query<{ id: string; outcome: string }>(
      `select id::text as id, outcome from calls where key_prefix = $1::text`,
      [plain.split('-')[2]],
    );
    expect(rows.map(({ id }) => id).toSorted()).toEqual(load.ids().toSorted());
    expect(new Set(rows.map(({ outcome }) => outcome))).toEqual(new Set(['ok']));
    const counters = await database.query(
      `select settled::integer as settled, leased::integer as leased from limit_counters where ceiling = 'calls' order by settled`,
    );
    expect(counters).toEqual([callLimit, load.ids().length].map((settled) => ({ settled, leased: 0 })));
    expect(await database.query('select * from limit_leases')).toEqual([]);
  });

  it('restores every call from a backup that was made while the service was running', async () => {
    if (!backup) throw new Error('there is no backup');
    const { plain, limited, before, admitted } = backup;
    const shared = await createTestDatabase('empty');
    const restored = openTestDatabase(shared.url, 1);
    try {
      const home = await processes.home('empty');
      const dataDir = join(home, 'data');
      await mkdir(dataDir);
      await runCommands(await commandsOf('restore'), { DATABASE_URL: shared.url, GATEWAY_DATA_DIR: dataDir });
      const idsOf = async (): Promise<string[]> =>
        (await restored.query<{ id: string }>(`select id::text as id from calls where key_prefix = $1::text`, [plain.split('-')[2]])).map(
          ({ id }) => id,
        );
      const dumped = new Set(await idsOf());
      expect(before.filter((id) => !dumped.has(id)).length).toBeGreaterThan(20);

      const gateway = await start('serve', 'this', { home, url: shared.url });
      await eventually(async () => expect(await readdir(join(dataDir, 'journal'))).toHaveLength(1));
      const ids = new Set(await idsOf());
      expect(before.filter((id) => !ids.has(id))).toEqual([]);
      // Calls that ran while the journal was copied.
      expect(ids.size - before.length).toBeLessThan(100);
      const statuses = await spendOf(limited, callLimit, [gateway]);
      expect(statuses.filter((status) => status === 200)).toHaveLength(callLimit - admitted);
      expect(await gateway.end('SIGTERM')).toBe(0);
      expect(
        await restored.query(
          `select settled::integer as settled, leased::integer as leased from limit_counters where ceiling = 'calls' order by settled`,
        ),
      ).toEqual([callLimit, ids.size].toSorted((one, other) => one - other).map((settled) => ({ settled, leased: 0 })));
    } finally {
      await restored.close();
      await shared.drop();
    }
  });

  it('names the installed and the required release if the database schema is too new', async () => {
    await migrate(database);
    await database.query(
      `insert into schema_migrations (version, name, checksum, oldest_server, release) values (9999, '9999_future', 'any', 9999, '9.0.0')`,
    );
    await expect(checkSchema(database)).rejects.toThrow(
      /^the database needs gateway 9\.0\.0, schema 9999 or newer; this is gateway \d+\.\d+\.\d+\S*, schema \d+: install a newer gateway, or restore a backup from before the upgrade$/,
    );
    const old = await start('serve', 'previous');
    expect([await old.exited, old.stderr()]).toEqual([1, expect.stringMatching(/^gateway: the database needs a server of schema 9999/)]);
  });
});

it('leaves the changelog entries of past releases unchanged', async () => {
  const { version } = previousRelease;
  const [released, current] = await Promise.all([readPreviousRelease('CHANGELOG.md'), readFile(join(root, 'CHANGELOG.md'), 'utf8')]);
  const section = (text: string, title: RegExp): string =>
    text
      .split(/^## /m)
      .find((part) => title.test(part))
      ?.replace(/^.*\n/, '')
      .trim() ?? '';
  expect(section(current, new RegExp(`^${version.replaceAll('.', '\\.')} - `))).toBe(section(released, /^(?:Pending|0)/));
});

/** Sends calls with the key at the same time; returns their statuses. */
async function spendOf(key: string, count: number, gateways: readonly GatewayProcess[]): Promise<number[]> {
  const body = { model: 'one/echo', messages: [{ role: 'user', content: 'hi' }] };
  const statuses: number[] = [];
  // A few at a time: a process that can't reach the counters in time, as on a busy machine, admits a tenth of the
  // ceiling without them.
  const waiting = Array.from({ length: count }, (_, n) => n).values();
  const workOff = async (): Promise<void> => {
    for (const n of waiting) {
      const response = await gateways[n % gateways.length]?.call(key, '/v1/chat/completions', body);
      await response?.text();
      statuses.push(response?.status ?? 0);
    }
  };
  await Promise.all(Array.from({ length: 4 }, workOff));
  return statuses;
}

async function schemaOf(database: Database): Promise<number> {
  const [row] = await database.query<{ version: number }>('select max(version) as version from schema_migrations');
  return row?.version ?? 0;
}
