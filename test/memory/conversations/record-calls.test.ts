import { createHash } from 'node:crypto';
import { expect, test } from '@jest/globals';
import type { SettledCall } from '../../../src/core/call.ts';
import type { Queries } from '../../../src/db/database.ts';
import { readCallText } from '../../../src/memory/conversations/read-call-text.ts';
import { recordCalls } from '../../../src/memory/conversations/record-calls.ts';
import { deleteReleasedParts } from '../../../src/memory/conversations/released-parts.ts';
import { describeDatabases } from '../../db/databases.ts';
import {
  type CallOptions,
  chatBody,
  createProject,
  listConversations,
  listIdleTimerStarts,
  markAllRead,
  putMemorySettings,
  record,
  settledCall,
} from '../calls.ts';

interface Step {
  readonly lines: readonly string[];
  readonly answer: string;
}

const first: Step = { lines: ['u q1'], answer: 'r1' };
const second: Step = { lines: ['u q1', 'a r1', 'u q2'], answer: 'r2' };
const third: Step = { lines: ['u q1', 'a r1', 'u q2', 'a r2', 'u q3'], answer: 'r3' };
const two = ['u q1', 'a r1', 'u q2', 'a r2'];
const three = [...two, 'u q3', 'a r3'];

describeDatabases('recording calls', (database) => {
  test('recognizes the conversation in a tool loop even if the client formats the JSON differently', async () => {
    const projectId = await createProject(database());
    const weatherCall = { name: 'get_weather', arguments: '{"city": "Oslo"}' };
    const chatHistory = (args: string) => [
      { role: 'user', content: 'Weather?' },
      { role: 'assistant', content: null, tool_calls: [{ id: 'c', type: 'function', function: { ...weatherCall, arguments: args } }] },
      { role: 'tool', tool_call_id: 'c', content: '4' },
    ];
    const use = {
      role: 'assistant',
      content: [
        { type: 'text', text: 'Let me.' },
        { type: 'tool_use', id: 't', name: 'get_weather', input: { city: 'Oslo' } },
      ],
    };
    const result = { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content: '4' }] };
    await record(database(), [
      settledCall({ projectId, at: 0, body: { messages: chatHistory('').slice(0, 1) }, answer: { text: '', toolCalls: [weatherCall] } }),
      settledCall({ projectId, at: 1, body: { messages: chatHistory('{"city":"Oslo"}') }, answer: '4 degrees' }),
      settledCall({
        projectId,
        at: 2,
        route: 'messages',
        source: 'b',
        body: { messages: [{ role: 'user', content: 'Weather?' }] },
        answer: { text: 'Let me.', toolCalls: [weatherCall] },
      }),
      settledCall({
        projectId,
        at: 3,
        route: 'messages',
        source: 'b',
        body: { messages: [{ role: 'user', content: 'Weather?' }, use, result] },
        answer: '4 degrees',
      }),
    ]);
    const seen = await listConversations(database(), projectId);
    expect(seen.map(({ calls, lines }) => ({ calls, lines }))).toEqual([
      { calls: 2, lines: ['u Weather?', 'a ', 'a 4 degrees'] },
      { calls: 2, lines: ['u Weather?', 'a Let me.', 'a 4 degrees'] },
    ]);
  });

  test('recognizes items of the Responses API that repeat an earlier response', async () => {
    const projectId = await createProject(database());
    const items = [
      { role: 'user', content: 'Weather?' },
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Let me.' }] },
      { type: 'function_call', call_id: 'c', name: 'get_weather', arguments: '{}' },
      { type: 'function_call_output', call_id: 'c', output: '4' },
    ];
    await record(database(), [
      settledCall({
        projectId,
        at: 0,
        route: 'responses',
        body: { input: 'Weather?' },
        answer: { text: 'Let me.', toolCalls: [{ name: 'get_weather', arguments: '{}' }] },
      }),
      settledCall({ projectId, at: 1, route: 'responses', body: { input: items }, answer: '4 degrees' }),
    ]);
    expect((await listConversations(database(), projectId)).map(({ lines }) => lines)).toEqual([
      ['u Weather?', 'a Let me.', 'a 4 degrees'],
    ]);
  });

  test('allows learning from a conversation after its second call', async () => {
    const projectId = await createProject(database());
    const call = (step: Step, extra: Partial<CallOptions>) => settledCall({ projectId, ...step, ...extra, body: chatBody(...step.lines) });
    await record(database(), [call(first, { at: 0, source: 'one' })]);
    await record(database(), [call(second, { at: 10, source: 'repeat' }), call(second, { at: 11, source: 'repeat' })]);
    await record(database(), [call(first, { at: 20, source: 'two' }), call(second, { at: 21, source: 'two' })]);
    await record(database(), [call(first, { at: 30, source: 'subject', subject: 'ann' })]);
    await record(database(), [call(first, { at: 40, source: 'explicit', explicitWrite: true })]);
    await record(database(), [call(second, { at: 51, source: 'late' })]);
    await record(database(), [call(first, { at: 50, source: 'late' })]);
    const seen = await listConversations(database(), projectId);
    expect(Object.fromEntries(seen.map(({ source, learnable, calls }) => [source, [learnable, calls]]))).toEqual({
      one: [false, 1],
      repeat: [false, 1],
      two: [true, 2],
      subject: [true, 1],
      explicit: [true, 1],
      late: [true, 2],
    });
  });

  test('starts the idle timer when a new conversation begins', async () => {
    const projectId = await createProject(database());
    const call = (step: Step, at: number) => settledCall({ projectId, ...step, at, body: chatBody(...step.lines) });
    await record(database(), [call(first, 0), call(second, 1)]);
    await record(database(), [call(second, 2)]);
    await markAllRead(database(), projectId);
    await record(database(), [settledCall({ projectId, source: 'other', at: 3, body: chatBody('u q1'), answer: 'r1' })]);
    expect(await listIdleTimerStarts(database(), projectId)).toEqual([`conversations/${projectId}/1`]);
    await markAllRead(database(), projectId);
    await database().query('update idle_timers set active = false where project_id = $1::uuid', [projectId]);
    await record(database(), [call(third, 3), call({ lines: ['u q1', 'a r1', 'u q2', 'a r2', 'u q3', 'a r3', 'u q4'], answer: 'r4' }, 4)]);
    const [seen] = await listConversations(database(), projectId);
    expect(seen).toMatchObject({ state: 'stored', opened: 2, calls: 4 });
    expect(await listIdleTimerStarts(database(), projectId)).toEqual([1, 2].map((run) => `conversations/${projectId}/${run}`));
  });

  const unrecorded: [title: string, options: Partial<CallOptions>][] = [
    ['that failed', { outcome: 'failed' }],
    ['whose client left', { outcome: 'client_left' }],
    ['that was interrupted', { outcome: 'interrupted' }],
    ['that turns memory off', { mode: 'off' }],
    ['from an unlisted source', { source: 'unlisted' }],
    ['without a source', { hasExplicitSource: false }],
  ];
  test.each(unrecorded)('stores the text of a call %s, but adds it to no conversation', async (_title, options) => {
    const projectId = await createProject(database());
    await putMemorySettings(database(), projectId, { only_senders: ['acme'] });
    const call = settledCall({ projectId, body: chatBody('s Be brief.', 'u q1'), answer: 'r1', subject: 'ann', ...options });
    await record(database(), [call]);
    expect(await listConversations(database(), projectId)).toEqual([]);
    expect(await textOf(call)).toEqual({
      subject: 'ann',
      extras: [{ kind: 'system', type: 'system', text: 'Be brief.', isCut: false, bytes: null, position: 0 }],
      answered: true,
      lines: ['user q1', 'assistant r1'],
    });
  });

  test('stores the text of every cached response in a batch', async () => {
    const projectId = await createProject(database());
    const calls = [
      settledCall({ projectId, at: 0, subject: 'ann', body: chatBody('u q1'), answer: 'r1' }),
      settledCall({ projectId, at: 1, subject: 'ben', body: chatBody('u q1'), answer: 'r1' }),
      settledCall({ projectId, at: 2, body: chatBody('u q1'), answer: 'r2' }),
      settledCall({ projectId, at: 3, body: chatBody('u q2'), answer: 'r2' }),
      settledCall({ projectId, at: 4, route: 'messages', body: chatBody('u q2'), answer: 'r2' }),
    ].map((call) => ({ ...call, result: { ...call.result, cache: 'hit' as const } }));
    await record(database(), calls);
    const texts = await Promise.all(calls.map(textOf));
    expect(texts).toMatchObject([
      { subject: 'ann', lines: ['user q1', 'assistant r1'] },
      { subject: 'ben', lines: ['user q1', 'assistant r1'] },
      { subject: null, lines: ['user q1', 'assistant r2'] },
      { subject: null, lines: ['user q2', 'assistant r2'] },
      { subject: null, lines: ['user q2', 'assistant r2'] },
    ]);
  });

  test('stores calls without adding them to conversations while memory is off', async () => {
    const projectId = await createProject(database());
    const calls = [
      settledCall({ projectId, at: 0, body: chatBody('u q1'), answer: 'r1' }),
      settledCall({ projectId, at: 1, body: chatBody('u q2'), answer: 'r2' }),
    ];
    await putMemorySettings(database(), projectId, { enabled: false });
    await record(database(), calls.slice(0, 1));
    expect(await textOf(calls[0])).toMatchObject({ lines: ['user q1', 'assistant r1'] });
    await putMemorySettings(database(), projectId, { enabled: true });
    await record(database(), calls.slice(1));
    expect((await listConversations(database(), projectId)).map(({ lines }) => lines)).toEqual([['u q2', 'a r2']]);
  });

  test("uses the settings from the time of the call, even if the project's settings have changed", async () => {
    const projectId = await createProject(database());
    const call = (isRecorded: boolean, at: number) =>
      settledCall({ projectId, at, isRecorded, body: chatBody(`u ${isRecorded} ${at}`), answer: 'r' });
    await record(database(), [call(true, 0), call(false, 1)]);
    await putMemorySettings(database(), projectId, { enabled: false });
    await record(database(), [call(true, 2), call(false, 3)]);
    expect((await listConversations(database(), projectId)).map(({ lines }) => lines[0])).toEqual(['u true 0', 'u true 2']);
  });

  test("doesn't record calls to other routes or calls without content", async () => {
    const projectId = await createProject(database());
    const embeddings = settledCall({ projectId, route: 'embeddings', body: { input: 'x' } });
    const empty = { ...settledCall({ projectId, body: chatBody('u q1') }), content: null };
    await record(database(), [embeddings, empty]);
    expect(await textOf(embeddings)).toBeNull();
    expect(await textOf(empty)).toBeNull();
  });

  test("stores a call without text if its body can't be parsed", async () => {
    const projectId = await createProject(database());
    const broken = settledCall({ projectId, at: 0, body: '{"messages": [' });
    const odd = settledCall({ projectId, at: 1, source: 'a\0b', body: chatBody('u nul \0 and \ud800'), answer: 'r\0\udc00' });
    await record(database(), [broken, odd]);
    expect(await textOf(broken)).toEqual({ subject: null, extras: [], answered: false, lines: [] });
    expect(await textOf(odd)).toMatchObject({ lines: ['user nul  and \ufffd', 'assistant r\ufffd'] });
    expect(await listConversations(database(), projectId)).toMatchObject([{ source: 'ab' }]);
  });

  test('changes nothing if the same batch of calls is recorded twice', async () => {
    const projectId = await createProject(database());
    const calls = [first, second, third].map((step, index) =>
      settledCall({ projectId, ...step, at: index, body: chatBody(...step.lines) }),
    );
    await record(database(), [...calls, ...calls]);
    await record(database(), calls);
    expect(await listConversations(database(), projectId)).toMatchObject([{ calls: 3, lines: three }]);
    expect(await listIdleTimerStarts(database(), projectId)).toHaveLength(1);
  });

  test('stores a message once per project, however often it is sent', async () => {
    const [projectId, other] = [await createProject(database()), await createProject(database())];
    const calls = (id: string) =>
      [first, second, third, third].map((step, index) => settledCall({ projectId: id, ...step, at: index, body: chatBody(...step.lines) }));
    await record(database(), [...calls(projectId), ...calls(other)]);
    await record(database(), calls(projectId));
    const rows = await database().query<{ projectId: string; count: number }>(
      `select project_id as "projectId", count(*)::integer as count from parts where project_id = any($1::uuid[]) group by 1`,
      [[projectId, other]],
    );
    expect(rows.map((row) => row.count)).toEqual([6, 6]);
    expect((await listConversations(database(), other)).map(({ lines }) => lines)).toEqual([three]);
  });

  test('stores the last messages of a history again if they were deleted', async () => {
    const projectId = await createProject(database());
    const calls = [first, second, third].map((step, index) =>
      settledCall({ projectId, ...step, at: index, body: chatBody(...step.lines), mode: 'off' }),
    );
    for (const call of calls.slice(0, 2)) await record(database(), [call]);
    const deleteText = async (call: SettledCall | undefined) => {
      await database().query(`delete from call_texts where call_id = $1::uuid`, [call?.metadata.id]);
      return database().transaction((tx) => deleteReleasedParts(tx, projectId));
    };
    expect(await deleteText(calls[1])).toBe(2);
    await record(database(), calls.slice(2));
    expect(await textOf(calls[2])).toMatchObject({
      lines: ['user q1', 'assistant r1', 'user q2', 'assistant r2', 'user q3', 'assistant r3'],
    });
    expect([await deleteText(calls[2]), await deleteText(calls[0])]).toEqual([4, 2]);
    await record(database(), calls.slice(2));
    expect(await textOf(calls[2])).toMatchObject({
      lines: ['user q1', 'assistant r1', 'user q2', 'assistant r2', 'user q3', 'assistant r3'],
    });
  });

  test("doesn't send text to the database again if it's already stored", async () => {
    const projectId = await createProject(database());
    const sent: number[] = [];
    const countSent = (lines: readonly string[], at: number) =>
      database().transaction(async (tx) => {
        let characters = 0;
        const query: Queries['query'] = (text, values = []) => {
          if (text.includes('insert into parts')) for (const value of values) characters += String(value).match(/[hd]/g)?.length ?? 0;
          return tx.query(text, values);
        };
        await recordCalls({ ...tx, query }, [settledCall({ projectId, at, body: chatBody(...lines), answer: `r${at}`, mode: 'off' })]);
        sent.push(characters);
      });
    const filler = (name: string, length: number) => `${name} ${'h'.repeat(length)}`;
    const history = Array.from({ length: 10 }, (_, index) => [filler(`u q${index}`, 10_000), filler(`a r${index}`, 10_000)]).flat();
    await countSent([...history, 'u first'], 0);
    await countSent([...history, 'u second'], 1);
    const users = Array.from({ length: 20 }, (_, index) => filler(`u only ${index}`, 1_000));
    await countSent(users, 2);
    await countSent([...users, 'u more'], 3);
    await countSent([filler('u document', 10_000)], 4);
    await countSent([filler('u document', 10_000)], 5);
    const rounded = sent.map((characters) => Math.round(characters / 1_000));
    expect(rounded).toEqual([200, 0, 20, 3, 10, 0]);
  });

  test('stores a shortened history as the client sent it', async () => {
    const projectId = await createProject(database());
    const calls = [first, second, { lines: ['u q2', 'a r2', 'u q3'], answer: 'r3' }].map((step, index) =>
      settledCall({ projectId, ...step, at: index, body: chatBody(...step.lines) }),
    );
    await record(database(), calls);
    expect(await textOf(calls[2])).toMatchObject({ lines: ['user q2', 'assistant r2', 'user q3', 'assistant r3'] });
  });

  test('stores the type, size and hash of binary content instead of the bytes', async () => {
    const projectId = await createProject(database());
    const pixels = Buffer.alloc(5_000, 'pixels');
    const content = [
      { type: 'text', text: 'What?' },
      { type: 'image_url', image_url: { url: `data:image/png;base64,${pixels.toString('base64')}` } },
    ];
    const call = settledCall({ projectId, body: { messages: [{ role: 'user', content }] }, answer: 'A cat.' });
    await record(database(), [call]);
    expect(await textOf(call)).toMatchObject({
      extras: [{ kind: 'binary', type: 'image_url', text: null, bytes: 5_000 }],
      lines: ['user What?', 'assistant A cat.'],
    });
    const [stored] = await database().query(`select content from parts where project_id = $1::uuid and role = 'binary'`, [projectId]);
    expect(stored).toEqual({
      content: {
        position: 0,
        type: 'image_url',
        bytes: 5_000,
        media_type: 'image/png',
        sha256: createHash('sha256').update(pixels).digest('hex'),
      },
    });
  });

  /** Returns the stored prompt and response of a call. */
  async function textOf(call: SettledCall | undefined): Promise<unknown> {
    const [row] = await database().query<{ projectId: string; subject: string | null }>(
      `select project_id as "projectId", subject from call_texts where call_id = $1::uuid`,
      [call?.metadata.id],
    );
    if (!row) return null;
    const stored = await readCallText(database(), row.projectId, call?.metadata.id ?? '', { maxMessages: 2_000, maxText: 1_000 });
    const lines = stored?.messages.map(({ role, text }) => `${role} ${text}`);
    return { subject: row.subject, extras: stored?.extras, answered: stored?.answered, lines };
  }

  test('starts a new idle timer if the active one is an hour overdue', async () => {
    const projectId = await createProject(database());
    const say = (at: number) => record(database(), [settledCall({ projectId, subject: 'u', at, body: chatBody(`u ${at}`), answer: 'r' })]);
    await say(0);
    await say(3_000);
    expect(await listIdleTimerStarts(database(), projectId)).toHaveLength(1);
    await say(7_000);
    expect(await listIdleTimerStarts(database(), projectId)).toHaveLength(1);
    await database().query(`update idle_timers set due_at = now() - interval '1 hour' where project_id = $1::uuid`, [projectId]);
    await say(11_000);
    const [seen] = await listConversations(database(), projectId);
    expect(seen).toMatchObject({ calls: 4, state: 'stored', opened: 1 });
    expect(await listIdleTimerStarts(database(), projectId)).toEqual([1, 2].map((run) => `conversations/${projectId}/${run}`));
  });

  test('creates only one conversation for concurrent batches of the same dialogue', async () => {
    const projectId = await createProject(database());
    const [a, b] = [first, second].map((step, index) => settledCall({ projectId, ...step, at: index, body: chatBody(...step.lines) }));
    if (!a || !b) throw new Error('two calls were made');
    const entered = Promise.withResolvers<void>();
    let isLaterDone = false;
    const earlier = database().transaction(async (tx) => {
      await recordCalls(tx, [a]);
      entered.resolve();
      // Wait until the other batch waits for the lock. On PGlite, it waits for the only session instead.
      for (let waiting = database().kind === 'embedded'; !waiting && !isLaterDone; ) {
        const locks = await tx.query(
          `select pid from pg_locks join pg_database on pg_database.oid = pg_locks.database
            where locktype = 'advisory' and not granted and datname = current_database()`,
        );
        waiting = locks.length > 0;
      }
    });
    await entered.promise;
    const later = record(database(), [b]).then(() => {
      isLaterDone = true;
    });
    await Promise.all([earlier, later]);
    expect(await listConversations(database(), projectId)).toMatchObject([{ calls: 2, lines: two }]);
  });
});
