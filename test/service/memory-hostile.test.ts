/**
 * Sends hostile inputs to memory. The responses have to be documented. Afterwards, no table can contain credentials,
 * invalid subjects, or memories that are instructions to a model.
 *
 * If a test fails, it prints the seed, and HOSTILE_SEED repeats it. `npm run test:exhaustive` sends all 3,000 inputs.
 */
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { findInjection } from '../../src/guardrails/injection.ts';
import { findTablesHolding, listTables } from '../memory/find-text.ts';
import { isExhaustive } from '../support/exhaustive.ts';
import type { TestGateway } from '../support/gateway.ts';
import { eventually, shareGateway } from '../support/gateway.ts';
import { onAnyDatabase } from './both-databases.ts';
import { createSecrets, hostileText } from './hostile-texts.ts';
import { saveItem, send } from './memory-routes.ts';

const seed = Number(process.env.HOSTILE_SEED ?? Date.now() % 2 ** 31);
const plain = 'text/plain';
const codesOf: Readonly<Record<number, readonly string[]>> = {
  400: ['bad_request', 'bad_json', 'invalid_memory_subject', 'missing_model', plain],
  403: ['guardrail_blocked'],
  404: ['not_found'],
  413: [plain],
  422: [plain],
};

/** One request with a hostile text somewhere in it, and the statuses that its route may return. */
interface Attack {
  readonly title: string;
  readonly runs: number;
  readonly statuses: readonly number[];
  readonly send: (gateway: TestGateway, text: string, known: string) => Promise<{ status: number; type: string; text: string }>;
  /** The response repeats what the caller or the vendor said. */
  readonly echoes?: true;
}

/**
 * Encodes UTF-8 bytes and drops what no client can put into a header, because the parser would reject it (see
 * test/service/fuzz.test.ts).
 */
const header = (text: string): string =>
  Buffer.from(text.toWellFormed().replace(/[^\t\P{Cc}\x80-\x9f]/gu, ''))
    .toString('latin1')
    .slice(0, 8_000);
const asJson = async (response: Promise<Response>) => {
  const answer = await response;
  return { status: answer.status, type: answer.headers.get('content-type')?.split(';')[0] ?? '', text: await answer.text() };
};
const said = (content: unknown) => ({ model: 'one/echo', messages: [{ role: 'user', content }] });

const attacks: readonly Attack[] = [
  { title: 'saving', runs: 600, statuses: [201, 400, 403], send: (g, text) => send(g, 'POST', '/items', { text }) },
  {
    title: 'correcting',
    runs: 300,
    statuses: [200, 400, 403],
    send: async (g, text) => send(g, 'PATCH', `/items/${(await saveItem(g, { text: 'to be corrected' })).id}`, { text }),
  },
  {
    title: 'every other member of a memory',
    runs: 200,
    statuses: [201, 400],
    echoes: true, // The subject belongs to the caller.
    send: (g, text) => send(g, 'POST', '/items', { text: 'x', kind: text.length % 3 === 0 ? text : 'fact', subject: text, [text]: text }),
  },
  { title: 'searching', runs: 200, statuses: [200, 422], send: (g, text) => send(g, 'POST', '/search', { query: text, subject: 'ann' }) },
  {
    title: 'the subject of a search, a graph query and a wake-up',
    runs: 200,
    statuses: [200, 400, 422],
    send: (g, text) => {
      const [path = '', body = {}] =
        [
          ['/search', { query: 'x' }],
          ['/graph', {}],
          ['/wake-up', {}],
        ][text.length % 3] ?? [];
      return send(g, 'POST', String(path), { ...Object(body), subject: text });
    },
  },
  {
    title: 'the graph',
    runs: 200,
    statuses: [200, 422],
    send: (g, text) => send(g, 'POST', '/graph', { query: text, entity: text.length % 2 ? text : null, relation: text.slice(0, 20) }),
  },
  {
    title: 'rating',
    runs: 100,
    statuses: [200, 400],
    send: (g, text, known) => send(g, 'POST', `/items/${known}/rating`, { rating: text.length % 5 === 0 ? 'useful' : text, reason: text }),
  },
  {
    title: 'ids in paths',
    runs: 100,
    statuses: [400, 404],
    send: (g, text) => send(g, 'DELETE', `/items/${encodeURIComponent(text.toWellFormed()).slice(0, 4_000) || 'x'}`),
  },
  {
    title: 'erasing a subject',
    runs: 100,
    statuses: [200, 400, 404],
    send: (g, text) => send(g, 'DELETE', `/subjects/${encodeURIComponent(text.toWellFormed()).slice(0, 4_000) || '%00'}`),
  },
  {
    title: 'a dry run of recall',
    runs: 100,
    statuses: [200],
    send: (g, text) => send(g, 'POST', '/recall', { messages: [{ role: 'user', content: text }], dry_run: true }),
    echoes: true,
  },
  {
    title: 'bodies that are not JSON',
    runs: 100,
    statuses: [400, 422],
    send: (g, text) => send(g, 'POST', '/search', `{"query": ${text}`),
  },
  {
    title: 'settings',
    runs: 100,
    statuses: [200, 400, 413],
    send: (g, text) =>
      asJson(
        g.admin('PUT', `/provision/teams/${g.project}/memory`, { batch_of: text, only_senders: [text].filter((name) => name.length % 2) }),
      ),
  },
  {
    title: 'the header with the subject',
    runs: 100,
    statuses: [200, 400],
    echoes: true,
    send: (g, text) => asJson(g.call('/v1/chat/completions', said('hello'), { 'x-gateway-memory-subject': header(text) })),
  },
  {
    title: 'chat: user, history, system prompt, tools and their results',
    runs: 300,
    statuses: [200],
    echoes: true,
    send: (g, text) => {
      const call = { id: 'c', type: 'function', function: { name: 'look', arguments: text } };
      const messages = [
        { role: 'system', content: text },
        { role: 'user', content: text },
        { role: 'assistant', content: text, tool_calls: [call] },
        { role: 'tool', tool_call_id: 'c', content: text },
        {
          role: 'user',
          content: [
            { type: 'text', text },
            { type: text, [text]: text },
          ],
        },
      ];
      return asJson(g.call('/v1/chat/completions', { model: 'one/echo', user: text, messages }, { 'x-gateway-memory': 'recall' }));
    },
  },
  {
    title: 'messages, streamed',
    runs: 150,
    statuses: [200],
    echoes: true,
    send: (g, text) => {
      const use = { type: 'tool_use', id: 't', name: 'look', input: { [text]: text } };
      const messages = [
        { role: 'user', content: text },
        { role: 'assistant', content: [{ type: 'text', text }, use] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content: text }] },
      ];
      return asJson(
        g.call('/v1/messages', { model: 'three/echo', max_tokens: 50, stream: true, system: text, metadata: { user_id: text }, messages }),
      );
    },
  },
  {
    title: 'responses',
    runs: 150,
    statuses: [200],
    echoes: true,
    send: (g, text) => asJson(g.call('/v1/responses', { model: 'one/echo', instructions: text, user: text, input: text })),
  },
];

test('the exhaustive run sends 3,000 hostile inputs', () => {
  expect(attacks.reduce((sum, { runs }) => sum + runs, 0)).toBe(3_000);
});

onAnyDatabase('hostile inputs', (database) => {
  const lent = shareGateway({ database });
  const planted = createSecrets();
  /** Every kind of request gets a tenth of its inputs. In the exhaustive run, PostgreSQL gets all of them. */
  const share = database === 'server' && isExhaustive ? 1 : 0.1;

  test.each(attacks)('handles hostile input without an internal error: $title', async ({ runs, statuses, send: attack, echoes }) => {
    const gateway = lent();
    const { id: known } = await saveItem(gateway, { text: 'known to all' });
    await fc.assert(
      fc.asyncProperty(hostileText(planted), async (text) => {
        const answer = await attack(gateway, text, known);
        expect(statuses).toContain(answer.status);
        if (answer.status >= 400) expect(codesOf[answer.status]).toContain(codeOf(answer));
        // No response repeats a credential, whether the input was rejected, found or stored.
        if (!echoes) for (const secret of planted.in(text)) expect(answer.text).not.toContain(secret);
      }),
      { numRuns: runs * share, seed, endOnFailure: true },
    );
  });

  test("doesn't store any credentials or prompt injections from the hostile inputs", async () => {
    const gateway = lent();
    await gateway.admin('PUT', `/provision/teams/${gateway.project}/memory`, { only_senders: [] });
    const chat = await asJson(gateway.call('/v1/chat/completions', said('still there?'), { 'x-gateway-memory': 'recall' }));
    expect(chat).toMatchObject({ status: 200, text: expect.stringContaining('still there?') });
    // Records are drained in order, so everything that came before is stored as well. On a busy machine, that takes
    // longer than a single read would wait.
    await eventually(async () => {
      expect(await findTablesHolding(gateway.database, 'still there?')).toEqual(expect.arrayContaining(['parts', 'memory_passages']));
    });

    // A subject is whatever the caller says it is. If we masked it, it would belong to somebody else and could not be
    // erased under its name.
    const tables = await Promise.all(
      (await listTables(gateway.database)).map(async (table) => {
        const rows = await gateway.database.query<{ row: string }>(
          `select (to_jsonb(whole) - 'subject')::text as row from ${table} as whole`,
        );
        // What fills giant texts is left out: looking for hundreds of secrets in all of it takes minutes.
        return { table, text: rows.map(({ row }) => row.replace(/(.{1,9}?)\1{30,}/gs, '$1')).join('\n') };
      }),
    );
    expect(planted.all().length).toBeGreaterThan(300 * share);
    expect(new Set(planted.all().map(({ kind }) => kind)).size).toBeGreaterThanOrEqual(15);
    expect(tables.find(({ table }) => table === 'parts')?.text).toContain('[credential]');
    const leaks = planted.all().flatMap(({ kind, core }) => {
      const where = tables.flatMap(({ table, text }) => {
        const at = text.indexOf(core);
        return at < 0 ? [] : [`${table}: ${text.slice(Math.max(0, at - 80), at + core.length + 20)}`];
      });
      return where.length > 0 ? [{ kind, where }] : [];
    });
    expect(leaks).toEqual([]);

    const items = await gateway.database.query<{ text: string }>('select text from memory_items');
    expect(items.length).toBeGreaterThan(100 * share);
    expect(items.filter(({ text }) => findInjection(text) !== null)).toEqual([]);
    expect(items.filter(({ text }) => text !== text.trim() || [...text].length > 4_000)).toEqual([]);
    for (const table of ['memory_items', 'memory_passages', 'conversations', 'call_texts']) {
      const rows = await gateway.database.query<{ subject: string }>(`select subject from ${table} where subject is not null`);
      expect(rows.filter(({ subject }) => /\p{Cc}/u.test(subject) || [...subject].length > 256 || subject === '')).toEqual([]);
    }
    const logs = gateway.logs.join('\n');
    expect(planted.all().filter(({ core }) => logs.includes(core))).toEqual([]);
  });
});

function codeOf({ type, text }: { readonly type: string; readonly text: string }): string {
  if (type === plain) return plain;
  const { error } = JSON.parse(text) as { error: { code?: string; type: string } };
  return error.code ?? error.type;
}
