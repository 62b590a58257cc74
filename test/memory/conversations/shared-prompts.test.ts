/**
 * Tests prompts that have texts in common. A session only stores what's new, and a deletion only removes what nothing
 * else uses.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import type { SettledCall } from '../../../src/core/call.ts';
import type { Database, Queries } from '../../../src/db/database.ts';
import { lockProject } from '../../../src/db/locks.ts';
import { migrate } from '../../../src/db/migrate.ts';
import { createPromptConverter } from '../../../src/memory/conversations/convert-prompts.ts';
import { packText } from '../../../src/memory/conversations/packed-text.ts';
import { readCallText } from '../../../src/memory/conversations/read-call-text.ts';
import { recordCalls } from '../../../src/memory/conversations/record-calls.ts';
import { createErase } from '../../../src/memory/erasure/erase.ts';
import { createRetention } from '../../../src/memory/erasure/retention.ts';
import { createExportMemory } from '../../../src/memory/portability/export-memory.ts';
import { describeDatabases } from '../../db/databases.ts';
import { createTestDatabase, describePostgres, openTestDatabase } from '../../support/postgres.ts';
import { createTestLog } from '../../support/temporal.ts';
import { baseTime, createProject, markAllRead, putMemorySettings, record, settledCall } from '../calls.ts';
import { findTablesHolding } from '../find-text.ts';
import { createRandom } from './sessions.ts';

const all = { maxMessages: 2_000, maxText: 1_000_000 };
const system = `You are an agent. ${'A long rule of the house. '.repeat(200)}`;
const tools = Array.from({ length: 12 }, (_, n) => ({
  type: 'function',
  function: { name: `tool_${n}`, description: `Tool ${n}. ${'It does what its name says. '.repeat(20)}` },
}));

/**
 * Returns the calls of a session, each of which repeats the history. `mark` is part of every text except the system
 * prompt, the tools and every third result.
 */
function session(
  projectId: string,
  mark: string,
  turns: number,
  options: { subject?: string; at?: number; reorders?: boolean; salt?: number } = {},
): SettledCall[] {
  const history: object[] = [{ role: 'user', content: `${mark} begins` }];
  return Array.from({ length: turns }, (_, turn) => {
    const answer = { text: `${mark} reads file ${turn}`, toolCalls: [{ name: 'tool_0', arguments: `{"path":"${mark}/${turn}"}` }] };
    const listed = options.reorders ? tools.map((_tool, index) => tools[(index + turn) % tools.length]) : tools;
    const body = { model: 'a/b', tools: listed, messages: [{ role: 'system', content: `${system}${options.salt ?? ''}` }, ...history] };
    const call = settledCall({
      projectId,
      at: (options.at ?? 0) + turn,
      body,
      answer,
      ...(options.subject && { subject: options.subject }),
    });
    const toolCalls = [{ id: `call_${turn}`, type: 'function', function: answer.toolCalls[0] }];
    history.push({ role: 'assistant', content: answer.text, tool_calls: toolCalls });
    const result = `${turn % 3 === 0 ? `shared ${options.salt ?? ''}` : mark} result ${turn}: ${'content of a file, '.repeat(100)}`;
    history.push({ role: 'tool', tool_call_id: `call_${turn}`, content: result });
    return call;
  });
}

async function textOf(database: Database, call: SettledCall | undefined): Promise<string> {
  const text = await readCallText(database, call?.metadata.projectId ?? '', call?.metadata.id ?? '', all);
  return JSON.stringify([
    text?.extras.map(({ kind, text: extra }) => [kind, extra]),
    text?.messages.map(({ role, text: said }) => [role, said]),
  ]);
}

async function countRows(database: Database, projectId: string) {
  const [row] = await database.query<{ texts: number; parts: number }>(
    `select (select count(*)::integer from prompt_texts where project_id = $1::uuid) as texts,
            (select count(*)::integer from parts where project_id = $1::uuid) as parts`,
    [projectId],
  );
  return row;
}

/** Finds rows that nothing refers to, and references to rows that don't exist. */
async function findDamage(database: Database): Promise<unknown[]> {
  return database.query(
    `select 'lost parent' as damage, count(*)::integer as rows from parts part
      where parent_hash is not null and not exists (select 1 from parts up where up.project_id = part.project_id and up.hash = part.parent_hash)
      having count(*) > 0
     union all
     select 'lost text', count(*)::integer from parts part
      where text_hash is not null and not exists (select 1 from prompt_texts t where t.project_id = part.project_id and t.hash = part.text_hash)
      having count(*) > 0
     union all
     select 'lost end', count(*)::integer from call_texts call cross join lateral unnest(array[last_hash, context_hash, extras_hash]) as ended (hash)
      where ended.hash is not null and not exists (select 1 from parts part where part.project_id = call.project_id and part.hash = ended.hash)
      having count(*) > 0
     union all
     select 'unused part', count(*)::integer from parts part
      where not exists (select 1 from parts next where next.project_id = part.project_id and next.parent_hash = part.hash)
        and not exists (select 1 from call_texts call where call.project_id = part.project_id
                                                        and part.hash in (call.last_hash, call.context_hash, call.extras_hash))
      having count(*) > 0
     union all
     select 'unused text', count(*)::integer from prompt_texts text
      where not exists (select 1 from parts part where part.project_id = text.project_id and part.text_hash = text.hash)
      having count(*) > 0
     union all
     select 'released part', count(*)::integer from released_parts having count(*) > 0`,
  );
}

describeDatabases('prompts that have texts in common', (database, testOnAny) => {
  test("stores only the new parts of each turn's prompt", async () => {
    const projectId = await createProject(database());
    const calls = session(projectId, 'ann', 30, { reorders: true });
    for (const call of calls.slice(0, 10)) await record(database(), [call]);
    const before = await countRows(database(), projectId);
    // This also works with several calls in one batch.
    await record(database(), calls.slice(10, 20));
    for (const call of calls.slice(20)) await record(database(), [call]);
    const after = await countRows(database(), projectId);
    // Each of the twenty turns has a part with its result, and a response.
    expect([(after?.texts ?? 0) - (before?.texts ?? 0), (after?.parts ?? 0) - (before?.parts ?? 0)]).toEqual([0, 40]);
    for (const at of [0, 9, 15, 29]) {
      const text = await textOf(database(), calls[at]);
      expect(text).toContain(JSON.stringify(['system', system]).slice(1, -1));
      expect(text.match(/"tool","{/g)).toHaveLength(12);
      expect(text.match(/"tool_result",/g) ?? []).toHaveLength(at);
      expect(text.match(/"assistant",/g)).toHaveLength(at + 1);
    }
    expect(await findDamage(database())).toEqual([]);
  });

  test("keeps an erased subject's prompt parts if other prompts still use them", async () => {
    const projectId = await createProject(database());
    const [mine, theirs] = [session(projectId, 'eve', 9, { subject: 'eve' }), session(projectId, 'bob', 9, { subject: 'bob' })];
    for (const call of [...mine, ...theirs]) await record(database(), [call]);
    const before = await Promise.all(theirs.map((call) => textOf(database(), call)));
    await createErase({ database: database(), clock: { now: Date.now } })({ projectId, subject: 'eve', askedBy: 'test' });
    expect(await findTablesHolding(database(), 'eve reads')).toEqual([]);
    expect(await findTablesHolding(database(), 'eve result')).toEqual([]);
    expect(await Promise.all(theirs.map((call) => textOf(database(), call)))).toEqual(before);
    expect(await findDamage(database())).toEqual([]);

    await markAllRead(database(), projectId);
    await putMemorySettings(database(), projectId, { delete_conversations_after_days: 1, delete_unlearned: true });
    const retention = createRetention({ database: database(), clock: { now: Date.now } });
    while ((await retention.conversations()) > 0);
    expect(await countRows(database(), projectId)).toEqual({ texts: 0, parts: 0 });
  });

  test('sends a known text to the database again only if it has been deleted', async () => {
    const projectId = await createProject(database());
    const packed = Buffer.from(packText(system).content, 'hex');
    /**
     * Records a call whose first system prompt is the date, so everything after it is linked to other parts than
     * before.
     */
    const sendsText = async (date: string): Promise<boolean> => {
      const blocks = [date, system].map((text) => ({ type: 'text', text }));
      const body = {
        model: 'a/b',
        messages: [
          { role: 'system', content: blocks },
          { role: 'user', content: 'What day is it?' },
        ],
      };
      const call = settledCall({ projectId, body, answer: date });
      let isSent = false;
      await database().transaction(async (tx) => {
        const query: Queries['query'] = (text, values) => {
          isSent ||= values?.some((value) => Buffer.isBuffer(value) && value.includes(packed)) ?? false;
          return tx.query(text, values);
        };
        await recordCalls({ ...tx, query }, [call]);
      });
      expect(await textOf(database(), call)).toContain(JSON.stringify(['system', system]).slice(1, -1));
      expect(await findDamage(database())).toEqual([]);
      return isSent;
    };
    // At first the text is packed together with the date.
    expect(await sendsText('Sunday')).toBe(false);
    expect(await sendsText('Monday')).toBe(true);
    expect(await sendsText('Tuesday')).toBe(false);
    await database().query('delete from call_texts where project_id = $1::uuid', [projectId]);
    const retention = createRetention({ database: database(), clock: { now: Date.now } });
    while ((await retention.releasedParts()) > 0);
    expect(await sendsText('Wednesday')).toBe(true);
  });

  test('deletes unused parts of prompts that an older release left behind', async () => {
    const projectId = await createProject(database());
    for (const call of session(projectId, 'old', 3)) await record(database(), [call]);
    await database().query('delete from call_texts where project_id = $1::uuid', [projectId]);
    expect(await countRows(database(), projectId)).not.toEqual({ texts: 0, parts: 0 });
    const retention = createRetention({ database: database(), clock: { now: Date.now } });
    while ((await retention.releasedParts()) > 0);
    expect(await countRows(database(), projectId)).toEqual({ texts: 0, parts: 0 });
    expect(await findDamage(database())).toEqual([]);
  });

  test('converts prompts from an older release a day after the upgrade', async () => {
    const projectId = await createProject(database());
    const calls = session(projectId, 'before', 8);
    await record(database(), calls);
    // Stores prompts like the older release did.
    for (const [turn, call] of calls.entries()) {
      const results = Array.from({ length: turn }, (_, n) => ({
        kind: 'tool_result',
        type: 'tool',
        text: `result ${n}`,
        position: 2 * n + 2,
      }));
      const image = { kind: 'binary', type: 'image_url', bytes: 3, sha256: 'ab', media_type: 'image/png', position: 1 };
      await database().query(
        `update call_texts set extras = $2::jsonb, shares_texts = false, context_hash = null, extras_hash = null where call_id = $1::uuid`,
        [call.metadata.id, JSON.stringify([{ kind: 'system', type: 'system', text: system, position: 0 }, ...results, image])],
      );
    }
    await database().query(`delete from parts where project_id = $1::uuid and role not in ('user', 'assistant')`, [projectId]);
    await database().query(`delete from prompt_texts where project_id = $1::uuid`, [projectId]);
    const before = await Promise.all(calls.map((call) => textOf(database(), call)));
    expect(before[7]).toContain('result 6');
    const { logger, lines } = createTestLog();
    const convert = (now: number) => createPromptConverter({ database: database(), clock: { now: () => now }, logger });
    // The database is a copy of a template that may be days old.
    await database().query('update schema_migrations set applied_at = now()');
    expect(await convert(Date.now())()).toBe(0);
    const run = convert(Date.now() + 25 * 3_600_000);
    let converted = 0;
    for (let count = await run(); count > 0; count = await run()) converted += count;
    expect(converted).toBe(8);
    expect(lines.map(({ message }) => message)).toEqual(['converted prompts from an older release']);
    expect(await Promise.all(calls.map((call) => textOf(database(), call)))).toEqual(before);
    // The responses, the system prompt, and for each call a result and an image.
    expect((await countRows(database(), projectId))?.parts).toBe(8 + 1 + 7 + 8 + 1);
    expect(await findDamage(database())).toEqual([]);
  });

  test("packs a request's new texts together, but stores a text separately if another chain needs only that text", async () => {
    const projectId = await createProject(database());
    const calls = session(projectId, 'pack', 9);
    const recordTurn = async (turn: number) => record(database(), calls.slice(turn, turn + 1));
    await recordTurn(5);
    // All tools and the system prompt, all five results, and seven messages with the response.
    expect(await countRows(database(), projectId)).toEqual({ texts: 0, parts: 1 + 1 + 7 });
    await recordTurn(8);
    await recordTurn(3);
    expect((await countRows(database(), projectId))?.texts).toBe(3);
    for (const turn of [3, 5, 8]) expect((await textOf(database(), calls[turn])).match(/"tool_result",/g)).toHaveLength(turn);
    expect(await findDamage(database())).toEqual([]);
  });

  test('packs the tool results of a session that begins with an image', async () => {
    const projectId = await createProject(database());
    const [, , call] = session(projectId, 'picture', 3);
    const { messages, ...body } = JSON.parse(String(call?.content?.request));
    const image = { role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } }] };
    await record(database(), [settledCall({ projectId, body: { ...body, messages: [messages[0], image, ...messages.slice(1)] } })]);
    const rows = await database().query<{ role: string }>('select role from parts where project_id = $1::uuid order by role', [projectId]);
    expect(rows.map(({ role }) => role).filter((role) => !['user', 'assistant'].includes(role))).toEqual(['binary', 'extras', 'extras']);
  });

  test('returns the newest tool results of a long prompt and reports if there is more', async () => {
    const projectId = await createProject(database());
    const call = session(projectId, 'newest', 9)[8];
    await record(database(), [call as SettledCall]);
    for (const maxMessages of [7, 8, 13]) {
      const read = await readCallText(database(), projectId, call?.metadata.id ?? '', { ...all, maxMessages });
      const kinds = read?.extras.map(({ kind }) => kind);
      const expected = [...Array(Math.min(maxMessages, 13)).fill('context'), ...Array(Math.min(maxMessages, 8)).fill('tool_result')];
      expect(kinds?.map((kind) => (kind === 'tool_result' ? kind : 'context'))).toEqual(expected);
      expect(read?.extras.at(-1)?.text).toContain('newest result 7');
      expect(read?.hasMoreExtras).toBe(maxMessages < 13);
    }
  });

  test('still finds older prompt parts after the newest ones are deleted', async () => {
    const projectId = await createProject(database());
    const calls = session(projectId, 'gone', 9);
    const retention = createRetention({ database: database(), clock: { now: Date.now } });
    await record(database(), calls.slice(4, 5));
    await record(database(), calls.slice(7, 8));
    await database().query('delete from call_texts where call_id = $1::uuid', [calls[7]?.metadata.id]);
    while ((await retention.releasedParts()) > 0);
    await record(database(), calls.slice(8));
    expect((await textOf(database(), calls[8])).match(/"tool_result",/g)).toHaveLength(8);
    expect(await findDamage(database())).toEqual([]);
  });

  test('finds prompt parts that another process has stored', async () => {
    const projectId = await createProject(database());
    const other = await createProject(database());
    const calls = session(projectId, 'both', 9);
    await record(database(), calls.slice(5, 6));
    // We can't run two processes here, so we store the next calls in another project and then move them.
    const ofOther = session(other, 'both', 9);
    await record(database(), ofOther.slice(5, 6));
    await record(database(), ofOther.slice(7, 8));
    for (const table of ['parts', 'call_texts']) {
      const isMoved = table === 'parts' ? 'hash not in (select hash from parts where project_id = $1::uuid)' : 'true';
      await database().query(`update ${table} set project_id = $1::uuid where project_id = $2::uuid and ${isMoved}`, [projectId, other]);
    }
    await database().query('delete from parts where project_id = $1::uuid', [other]);
    // This process has seen the result of turn 5 in another session, so it would store the result in a part of its own.
    const messages = [{ role: 'tool', tool_call_id: 'call_5', content: `both result 5: ${'content of a file, '.repeat(100)}` }];
    await record(database(), [settledCall({ projectId, at: 20, body: { model: 'a/b', messages } })]);
    const repeated = settledCall({ projectId, at: 21, body: JSON.parse(String(calls[7]?.content?.request)) });
    await record(database(), [repeated]);
    expect((await textOf(database(), repeated)).match(/"tool_result",/g)).toHaveLength(7);
    expect(await findDamage(database())).toEqual([]);
  });

  testOnAny('keeps all prompts readable while calls of random sessions are stored and deleted', async () => {
    const projectId = await createProject(database());
    const retention = createRetention({ database: database(), clock: { now: Date.now } });
    const random = createRandom(5);
    const pool = [0, 1, 2].flatMap((salt) => session(projectId, `random ${salt % 2}`, 12, { salt, at: 100 * salt }));
    const expected = new Map<SettledCall, number>();
    for (let round = 0; round < 25; round += 1) {
      const from = random(pool.length);
      const batch = pool.slice(from, from + 1 + random(4)).filter((call) => !expected.has(call));
      await record(database(), batch);
      for (const call of batch) expected.set(call, pool.indexOf(call) % 12);
      for (const call of [...expected.keys()].filter(() => random(4) === 0)) {
        await database().query('delete from call_texts where call_id = $1::uuid', [call.metadata.id]);
        expected.delete(call);
      }
      while ((await retention.releasedParts()) > 0);
      expect(await findDamage(database())).toEqual([]);
      for (const [call, results] of expected) {
        const text = await textOf(database(), call);
        expect([text.match(/"tool_result",/g)?.length ?? 0, text.match(/"tool",/g)?.length]).toEqual([results, 12]);
      }
    }
    for (const call of expected.keys()) await database().query('delete from call_texts where call_id = $1::uuid', [call.metadata.id]);
    while ((await retention.releasedParts()) > 0);
    expect(await countRows(database(), projectId)).toEqual({ texts: 0, parts: 0 });
  });
});

/** Opens several connections to a new database, each with its own pool. */
async function withDatabases(count: number, work: (first: Database, ...others: readonly Database[]) => Promise<void>): Promise<void> {
  const lent = await createTestDatabase();
  const open = () => openTestDatabase(lent.url, 4);
  const databases: [Database, ...Database[]] = [open(), ...Array.from({ length: count - 1 }, open)];
  try {
    await migrate(databases[0]);
    await work(...databases);
  } finally {
    await Promise.all(databases.map((database) => database.close()));
    await lent.drop();
  }
}

/**
 * Three processes store calls of two subjects. At the same time, a subject is erased, conversations expire, an export
 * reads, and connections break.
 */
describePostgres('concurrent writes, erasures, cleanups and exports', () => {
  test("doesn't delete a shared prompt part while a call that uses it is being stored", async () => {
    await withDatabases(2, async (admin, other) => {
      const projectId = await createProject(admin);
      await putMemorySettings(admin, projectId, { delete_conversations_after_days: 1, delete_unlearned: true });
      const retention = createRetention({ database: admin, clock: { now: Date.now } });
      for (const call of session(projectId, 'rob', 2, { subject: 'rob' })) await record(admin, [call]);
      await markAllRead(admin, projectId);
      const [, call] = session(projectId, 'bob', 2, { subject: 'bob' });
      let deleting: Promise<number> | null = null;
      await other.transaction(async (tx) => {
        const query: Queries['query'] = async (text, values) => {
          const rows = await tx.query<never>(text, values);
          if (!text.includes('join parts using') || deleting !== null) return rows;
          deleting = retention.conversations();
          await Promise.race([deleting, sleep(300)]);
          return rows;
        };
        await recordCalls({ ...tx, query }, call ? [call] : []);
      });
      expect(await deleting).toBe(1);
      expect(await findDamage(admin)).toEqual([]);
      expect(await textOf(admin, call)).toContain('A long rule');
    });
  });

  test('deletes all unused prompt parts and nothing else', async () => {
    await withDatabases(4, async (admin, ...processes) => {
      const projectId = await createProject(admin);
      await putMemorySettings(admin, projectId, { delete_conversations_after_days: 1, delete_unlearned: true });
      const erase = createErase({ database: admin, clock: { now: Date.now } });
      const retention = createRetention({ database: admin, clock: { now: Date.now } });
      const kept: SettledCall[] = [];
      // The calls have to be later than every erasure. Otherwise, they wouldn't be stored.
      const now = Math.floor((Date.now() - baseTime) / 1_000) + 3_600;
      let isWriting = true;
      const write = async (database: Database, writer: number): Promise<void> => {
        for (let round = 0; round < 16; round += 1) {
          // rob's calls are so old that they are deleted.
          const subject = writer % 2 === 0 ? 'evelyn' : round % 2 === 0 ? 'bob' : 'rob';
          const isKept = subject === 'bob';
          const calls = session(projectId, `${subject}${isKept ? '' : ' gone'} ${writer}.${round}`, 1 + (round % 3), {
            subject,
            salt: round,
            at: isKept || subject === 'evelyn' ? now : 0,
          });
          for (const call of calls) {
            // Repeats the batch after an error, like the journal does.
            for (let isStored = false; !isStored; ) {
              isStored = await database
                .transaction(async (tx) => {
                  await lockProject(tx, projectId, 'shared');
                  await recordCalls(tx, [call]);
                })
                .then(
                  () => true,
                  () => false,
                );
            }
            if (isKept) kept.push(call);
          }
        }
      };
      const disturb = async (): Promise<void> => {
        while (isWriting) {
          await markAllRead(admin, projectId).catch(() => undefined);
          await erase({ projectId, subject: 'evelyn', askedBy: 'test' }).catch(() => undefined);
          while ((await retention.conversations().catch(() => 0)) > 0);
          for await (const _ of createExportMemory({ database: admin })({ projectId, project: 'p', subject: 'bob' })) if (!isWriting) break;
          // Simulates a killed process. Its transaction ends, and the process that takes over its journal repeats it.
          await admin.query(
            `select pg_terminate_backend(pid) from pg_stat_activity
              where datname = current_database() and state = 'active' and pid <> pg_backend_pid() and query like '%parts%' limit 1`,
          );
        }
      };
      const disturbing = disturb();
      await Promise.all(processes.flatMap((database) => [0, 1].map((writer) => write(database, writer))));
      isWriting = false;
      await disturbing;
      await erase({ projectId, subject: 'evelyn', askedBy: 'test' });
      await markAllRead(admin, projectId);
      while ((await retention.conversations()) > 0);
      while ((await retention.unfiledPrompts()) > 0);
      expect(await findDamage(admin)).toEqual([]);
      expect(await findTablesHolding(admin, 'evelyn')).toEqual([]);
      expect(await findTablesHolding(admin, 'gone')).toEqual([]);
      expect(kept.length).toBeGreaterThan(30);
      for (const call of kept) {
        const { messages } = JSON.parse(String(call.content?.request)) as { messages: { role: string }[] };
        const results = messages.filter(({ role }) => role === 'tool').length;
        const text = await textOf(admin, call);
        expect([text.match(/"tool_result",/g)?.length ?? 0, text.includes('A long rule')]).toEqual([results, true]);
      }
    });
  });
});
