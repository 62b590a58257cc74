/**
 * Upgrades a service whose calls have long prompts while it's running. The previous release stores system prompts and
 * tool results with each call, and this one shares them, and converts the old ones in the background.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { systemClock } from '../../src/core/time.ts';
import type { Database } from '../../src/db/database.ts';
import { migrate } from '../../src/db/migrate.ts';
import { openServerDatabase } from '../../src/db/pool.ts';
import { countOldPrompts, createPromptConverter } from '../../src/memory/conversations/convert-prompts.ts';
import { readCallText } from '../../src/memory/conversations/read-call-text.ts';
import { keepingLogger } from '../journal/calls.ts';
import { createCallLoad } from '../support/call-load.ts';
import { eventually, jsonOf } from '../support/gateway.ts';
import { createProcesses, type GatewayProcess } from '../support/gateway-process.ts';
import { createTestDatabase, describePostgres } from '../support/postgres.ts';
import { extractPreviousRelease, type ReleaseSource } from '../support/previous-release.ts';
import { createScriptedVendor, type ScriptedVendor } from '../support/scripted-vendor/server.ts';

/** Every tenth call begins a new session. The others repeat the history of their session. */
const turns = 10;
const systemPrompt = 'You are an agent that reads the files of a project. '.repeat(200).trim();
const toolResult = (session: number, turn: number): string => `contents of file ${turn} in session ${session} `.repeat(40).trim();

function messagesOf(n: number): readonly object[] {
  const session = Math.floor(n / turns);
  return [
    { role: 'system', content: systemPrompt },
    { role: 'user', content: `task of session ${session}` },
    ...Array.from({ length: n % turns }, (_, turn) => [
      {
        role: 'assistant',
        content: `turn ${turn}`,
        tool_calls: [{ id: `call_${turn}`, type: 'function', function: { name: 'read', arguments: `{"n":${turn}}` } }],
      },
      { role: 'tool', tool_call_id: `call_${turn}`, content: toolResult(session, turn) },
    ]).flat(),
    { role: 'user', content: `question ${n}` },
  ];
}

describePostgres('an upgrade of a service with long prompts', () => {
  const processes = createProcesses();
  const cleanups: (() => Promise<unknown>)[] = [];
  let databaseUrl = '';
  let database: Database;
  let vendor: ScriptedVendor;
  let release: ReleaseSource;

  beforeAll(async () => {
    release = await extractPreviousRelease();
    cleanups.push(release.remove);
    vendor = await createScriptedVendor();
    cleanups.push(vendor.close);
    const shared = await createTestDatabase('empty');
    cleanups.push(shared.drop);
    databaseUrl = shared.url;
    database = openServerDatabase({ connectionString: databaseUrl, maxConnections: 2 });
    cleanups.push(database.close, processes.stopAll);
  });
  afterAll(async () => {
    for (const cleanup of cleanups.reverse()) await cleanup();
  });

  const start = async (command: string, version: 'previous' | 'this', home?: string): Promise<GatewayProcess & { home: string }> => {
    const folder = home ?? (await processes.home('empty'));
    await writeFile(
      join(folder, 'gateway.yaml'),
      `providers: { one: { base_url: ${vendor.url}/v1, api_key: any, dialect: chat } }\nmodels: { one/echo: { input: 1, output: 1 } }\n`,
    );
    const env = { DATABASE_URL: databaseUrl, ...(version === 'previous' && release.env) };
    const program = version === 'previous' && { program: release.program(command) };
    return Object.assign(await processes.start(command, { home: folder, env, ...program }), { home: folder });
  };

  it('keeps every prompt readable after an upgrade and after a downgrade', async () => {
    // This command also creates the schema.
    const old = await start('start', 'previous');
    await old.admin('PUT', '/provision/teams/acme', { cache: { enabled: false } });
    const { key } = await jsonOf<{ key: string }>(
      old.admin('POST', '/provision/teams/acme/keys', { name: 'load', ceilings: { calls: 1_000_000 } }),
    );
    const answered = new Map<string, number>();
    const load = createCallLoad(key, [old], { messagesOf, onAnswered: (id, n) => answered.set(id, n) });
    try {
      await load.untilSent(40);
      await migrate(database);
      // Conversion begins a day after the upgrade.
      await database.query(`update schema_migrations set applied_at = applied_at - interval '2 days'`);
      const young = await start('serve', 'this');
      await load.use([old, young]);
      const convert = createPromptConverter({ database, clock: systemClock, logger: keepingLogger() });
      let converted = 0;
      // The old process keeps writing prompts in the old form meanwhile.
      for (const until = answered.size + 60; answered.size < until; ) {
        converted += await convert();
        await load.untilSent(5);
      }
      expect(converted).toBeGreaterThan(40);
      await load.use([young]);
      await untilStored();
      expect(await old.end('SIGTERM')).toBe(0);
      await eventually(async () => {
        await convert();
        expect(await countOldPrompts(database)).toBe(0);
      });
      await load.untilSent(20);
      await young.end('SIGKILL');

      const back = await start('serve', 'previous');
      await load.use([back]);
      await load.untilSent(25);
      // This process also has to read what the killed one has left in its journal.
      const again = await start('serve', 'this', young.home);
      await load.use([again]);
      await untilStored();
      expect(await back.end('SIGTERM')).toBe(0);
      await load.untilSent(10);
      await load.stop();
      await untilStored();
      expect(await countOldPrompts(database)).toBeGreaterThan(20);
      await expectReadable();
      await eventually(async () => {
        await convert();
        expect(await countOldPrompts(database)).toBe(0);
      });
      await expectReadable();
      expect(await again.end('SIGTERM')).toBe(0);
    } finally {
      await load.stop();
    }

    /**
     * Waits until every call that was answered so far is in the database. A process that has to stop under load may
     * leave the rest in its journal, and only a process in the same folder would read that.
     */
    async function untilStored(): Promise<void> {
      const ids = [...answered.keys()];
      await eventually(async () => {
        const stored = await database.query('select from call_texts where call_id = any($1::uuid[])', [ids]);
        expect(stored).toHaveLength(ids.length);
      });
    }

    /** Checks the whole text of every call that was answered. */
    async function expectReadable(): Promise<void> {
      const [project] = await database.query<{ id: string }>(`select project_id::text as id from calls limit 1`);
      for (const [id, n] of answered) {
        const text = await readCallText(database, project?.id ?? '', id, { maxMessages: 100, maxText: 100_000 });
        const session = Math.floor(n / turns);
        expect(text?.extras.map((extra) => extra.text).toSorted()).toEqual(
          [systemPrompt, ...Array.from({ length: n % turns }, (_, turn) => toolResult(session, turn))].toSorted(),
        );
        expect(text?.messages.map((message) => message.text)).toEqual([
          `task of session ${session}`,
          ...Array.from({ length: n % turns }, (_, turn) => `turn ${turn}`),
          `question ${n}`,
          expect.any(String),
        ]);
      }
    }
  });
});
