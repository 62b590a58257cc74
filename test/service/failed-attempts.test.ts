/** Tests how callers, members and operators find out why an attempt failed, and what we don't store about it. */
import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { createServer as createTcpServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createCleanupSteps } from '../../src/app/cleanup.ts';
import { runCommand } from '../../src/cli/commands.ts';
import { dayMs } from '../../src/core/time.ts';
import type { Database } from '../../src/db/database.ts';
import { findTablesHolding } from '../memory/find-text.ts';
import { adminToken, defaultYaml, jsonOf, shareGateway, type TestGateway } from '../support/gateway.ts';
import { createTestLog } from '../support/temporal.ts';
import { onBothDatabases } from './both-databases.ts';

interface AttemptRow {
  readonly status: number | null;
  readonly error: {
    readonly reason: string;
    readonly type: string | null;
    readonly code: string | null;
    readonly message: string | null;
  } | null;
}
interface FailedCall {
  readonly id: string;
  readonly project: string;
  readonly key_name: string;
  readonly outcome: string;
  readonly attempts: readonly AttemptRow[];
}

/** The vendor's response, by model. */
const answers: Record<string, (response: ServerResponse, prompt: string) => void> = {
  quotes: (response, prompt) =>
    sendJson(response, 400, { message: `Invalid value: '${prompt}'.`, type: 'invalid_request_error', code: 'bad_value' }),
  long: (response) => sendJson(response, 400, { message: 'A long explanation. '.repeat(300), type: 'invalid_request_error' }),
  private: (response) =>
    sendJson(response, 500, {
      message: 'ask zoe@example.com, +49 30 1234567, with key sk-abcdefghijklmnop1234567890abcdefgh of org-abc12345def',
    }),
  quoting: (response) => sendJson(response, 400, { message: vendorMessage }),
  terminal: (response) => sendJson(response, 400, { message: 'gone \u001b[31m \u009b2J \u0007' }),
  limits: (response) =>
    sendJson(response, 429, { message: 'Rate limit reached: Limit 3, Used 3.', type: 'tokens', code: 'rate_limit_exceeded' }),
  account: (response) =>
    sendJson(response, 403, { message: 'Your organization must be verified to use the model.', type: 'permission_error' }),
  page: (response) =>
    response.writeHead(502, { 'content-type': 'text/html' }).end('<html><style>p{}</style><h1>502 Bad Gateway</h1>nginx</html>'),
  resets: (response) => response.socket?.resetAndDestroy(),
  hangs: () => undefined,
  breaks(response) {
    const chunk = { id: 'c', object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content: 'hi' }, finish_reason: null }] };
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(`data: ${JSON.stringify(chunk)}\n\n`, () => {
      response.socket?.resetAndDestroy();
    });
  },
};

let vendorMessage = '';

function sendJson(response: ServerResponse, status: number, error: object): void {
  response.writeHead(status, { 'content-type': 'application/json', 'retry-after': '0.01' }).end(JSON.stringify({ error }));
}

const vendor = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', () => {
    const { model, messages } = JSON.parse(Buffer.concat(chunks).toString());
    answers[model]?.(response, messages.at(-1).content);
  });
});
/** This server doesn't support TLS. */
const plain = createTcpServer((socket) => {
  socket.on('error', () => {}).on('data', () => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'));
});

const portOf = (server: Pick<Server, 'address'>): number => {
  const address = server.address();
  return typeof address === 'object' ? (address?.port ?? 0) : 0;
};
beforeAll(async () => {
  await Promise.all([vendor, plain].map((server) => once(server.listen(0, '127.0.0.1'), 'listening')));
});
afterAll(() => {
  vendor.closeAllConnections();
  vendor.close();
  plain.close();
});

const yaml = (vendorUrl: string, deadUrl: string): string =>
  defaultYaml(vendorUrl, deadUrl).replace(
    'models:\n',
    [
      `  faulty: { base_url: "http://127.0.0.1:${portOf(vendor)}/v1", api_key: key-faulty-1, dialect: chat, first_byte_timeout_ms: 500 }\n`,
      `  nowhere: { base_url: "http://no-such-host.invalid/v1", api_key: key-nowhere, dialect: chat }\n`,
      `  insecure: { base_url: "https://127.0.0.1:${portOf(plain)}/v1", api_key: key-insecure, dialect: chat }\n`,
      'models:\n',
    ].join(''),
  );

async function failedCallsOf({ admin, project }: TestGateway): Promise<readonly FailedCall[]> {
  return (await jsonOf<{ data: readonly FailedCall[] }>(admin('GET', `/provision/teams/${project}/calls?failed=true`))).data;
}

async function run(url: string, command: string): Promise<string> {
  let written = '';
  const write = (text: string): void => {
    written += text;
  };
  await runCommand([...command.split(' '), '--url', url], { GATEWAY_ADMIN_TOKEN: adminToken }, { write, writeError: write });
  return written;
}

onBothDatabases('the reason for a failed attempt', (database) => {
  const lent = shareGateway({ database, yaml });
  let projects = 0;

  /** Sends a prompt in a separate project and returns the recorded call. */
  async function fail(
    model: string,
    more: object = {},
    headers: Record<string, string> = {},
  ): Promise<{ gateway: TestGateway; call: FailedCall }> {
    projects += 1;
    const gateway = await lent().withProject(`failing-${projects}`);
    const body = { model, messages: [{ role: 'user', content: 'Zora lives at the old mill' }], ...more };
    await (await gateway.call('/v1/chat/completions', body, headers)).text().catch(() => '');
    const [call] = await failedCallsOf(gateway);
    if (!call) throw new Error('no failed call was recorded');
    return { gateway, call };
  }
  const errorOf = async (model: string, more: object = {}) => (await fail(model, more)).call.attempts[0]?.error;

  test.each([
    ['faulty/limits', { reason: 'status', type: 'tokens', code: 'rate_limit_exceeded', message: 'Rate limit reached: Limit 3, Used 3.' }],
    [
      'faulty/account',
      { reason: 'status', type: 'permission_error', code: null, message: 'Your organization must be verified to use the model.' },
    ],
    ['faulty/page', { reason: 'status', type: null, code: null, message: '502 Bad Gateway nginx' }],
    ['faulty/hangs', { reason: 'timeout', type: null, message: 'timed out waiting for the response' }],
    ['faulty/resets', { reason: 'connect', type: null, message: expect.stringMatching(/^the connection was (?:reset|closed) before/) }],
    ['dead/any', { reason: 'connect', type: null, code: 'ECONNREFUSED', message: 'the connection was refused' }],
    [
      'nowhere/any',
      { reason: 'connect', type: null, message: expect.stringMatching(/^the (?:host name does not exist|DNS server did not respond)$/) },
    ],
    ['insecure/any', { reason: 'connect', type: null, message: 'the TLS handshake failed' }],
  ])('stores the reason for a failed attempt: %s', async (model, error) => {
    expect(await errorOf(model)).toMatchObject(error);
  });

  test('stores why a stream was interrupted', async () => {
    const { call } = await fail('faulty/breaks', { stream: true });
    expect(call).toMatchObject({ outcome: 'interrupted', attempts: [{ status: 200, error: { reason: 'broken' } }] });
  });

  test("removes prompts, keys and personal data from the vendor's error message", async () => {
    expect(await errorOf('faulty/quotes')).toEqual({
      reason: 'status',
      type: 'invalid_request_error',
      code: 'bad_value',
      message: "Invalid value: '[…]'.",
    });
    const { message } = (await errorOf('faulty/private')) ?? {};
    expect(message).toBe('ask [email], [phone], with key [credential] of [account]');
  });

  test("stores no part of private data from a vendor's error message that is cut off", async () => {
    const gateway = await lent().withProject('cut-message');
    const secrets = [
      'postgres://admin:hunter2Secret9pass@db.internal/prod',
      'card 4111 1111 1111 1111',
      'zoe.smith@example.com',
      'sk-ant-api03-abcdefghijklmnop1234567890abcdefgh',
    ];
    // We only search the first 600 characters. Without the quote, all of what remains is stored.
    for (const secret of secrets)
      for (let end = 1; end < secret.length; end += 5) {
        const quoted = 'the words of the request '.repeat(10);
        const text = `Invalid value (${quoted}) `.padEnd(600 - end, 'no a b ');
        vendorMessage = `${text}${secret} again`;
        const body = { model: 'faulty/quoting', messages: [{ role: 'user', content: quoted }] };
        await (await gateway.call('/v1/chat/completions', body)).text();
      }
    const stored = (await failedCallsOf(gateway)).map(({ attempts }) => attempts[0]?.error?.message ?? '');
    expect(stored).toHaveLength(secrets.reduce((count, secret) => count + Math.ceil((secret.length - 1) / 5), 0));
    for (const message of stored) {
      expect(message).toMatch(/^Invalid value/);
      expect(message).not.toMatch(/hunter|4111 1111|zoe|sk-|api03/);
    }
  });

  test("returns 4,096 characters of the vendor's message to the caller, but stores and logs at most 500", async () => {
    const gateway = await lent().withProject('long-message');
    const body = { model: 'faulty/long', messages: [{ role: 'user', content: 'hi' }] };
    const { error } = await jsonOf<{ error: { code: string; message: string } }>(gateway.call('/v1/chat/completions', body));
    expect(error).toMatchObject({ code: 'upstream_refused', message: expect.stringMatching(/^(?:A long explanation\. )+[^.]*…$/) });
    expect(error.message).toHaveLength(4_096);
    const [call] = await failedCallsOf(gateway);
    const stored = call?.attempts[0]?.error?.message ?? '';
    expect([stored.startsWith('A long explanation.'), stored.length <= 500]).toEqual([true, true]);
    expect(gateway.logs.join('')).not.toContain('A long explanation');
  });

  test('stores no error message for an attempt that succeeds', async () => {
    const { gateway } = await fail('faulty/account');
    const tiers = { mixed: ['faulty/account', 'two/echo'] };
    await gateway.admin('PUT', `/provision/teams/${gateway.project}`, { tiers });
    const body = { model: 'mixed', messages: [{ role: 'user', content: 'hi' }] };
    expect((await gateway.call('/v1/chat/completions', body)).status).toBe(200);
    expect((await gateway.call('/v1/chat/completions', { ...body, model: 'two/echo' })).status).toBe(200);
    const calls = await failedCallsOf(gateway);
    expect(calls.map(({ outcome, attempts }) => [outcome, attempts.map(({ error }) => error?.type)])).toEqual([
      ['ok', ['permission_error', undefined]],
      ['failed', ['permission_error']],
    ]);
  });

  test("logs a failed attempt without the vendor's message", async () => {
    const { gateway, call } = await fail('faulty/quotes');
    const line = gateway.logs.map((text) => JSON.parse(text)).find((fields) => fields.msg === 'attempt failed' && fields.call === call.id);
    expect(line).toMatchObject({
      ...{
        level: 'info',
        project: gateway.project,
        provider: 'faulty',
        model: 'faulty/quotes',
        attempt: 1,
        outcome: 'refused',
        status: 400,
      },
      ...{ reason: 'status', upstreamType: 'invalid_request_error', upstreamCode: 'bad_value' },
    });
    expect(JSON.stringify(line)).not.toMatch(/Invalid value|Zora/);
  });

  test("lists a project's failed attempts on the command line", async () => {
    const { gateway, call } = await fail('dead/any');
    const { gateway: other } = await fail('faulty/limits');
    const row = new RegExp(
      `^\\S+ +${gateway.project} +\\S.* +${gateway.project} +dead/any +- +connect +ECONNREFUSED +failed +${call.id} +the connection was refused$`,
      'm',
    );
    expect(await run(gateway.url, `calls --failed --project ${gateway.project}`)).toMatch(row);
    expect(await run(gateway.url, 'calls --failed --limit 2')).toMatch(row);
    expect(await run(gateway.url, `calls --failed --project ${other.project}`)).not.toContain(call.id);
    const page = await run(gateway.url, `calls --failed --before ${call.id}`);
    expect(page).not.toContain(call.id);
  });

  test("prints no control character of a vendor's message", async () => {
    const { gateway, call } = await fail('faulty/terminal');
    for (const command of [`calls ${call.id}`, `calls ${call.id} --json`, 'calls --failed', 'calls --failed --json']) {
      const printed = await run(gateway.url, `${command} --project ${gateway.project}`);
      expect(printed).toContain('[31m');
      expect(printed).not.toMatch(/[^\P{Cc}\n]/u);
      if (command.endsWith('--json')) expect(JSON.stringify(JSON.parse(printed))).toContain('\u009b2J');
    }
  });

  test("deletes a vendor's error message when its subject is erased", async () => {
    const { gateway, call } = await fail('faulty/account', {}, { 'x-gateway-memory-subject': 'zora' });
    expect(await findTablesHolding(gateway.database, 'must be verified')).toContain('attempt_errors');
    const receipt = await fetch(`${gateway.url}/v1/memory/subjects/zora`, {
      method: 'DELETE',
      headers: { authorization: `Bearer ${gateway.key}` },
    });
    expect(receipt.status).toBe(200);
    const [erased] = await failedCallsOf(gateway);
    expect(erased).toMatchObject({ id: call.id, attempts: [{ error: { reason: 'status', type: 'permission_error', message: null } }] });
  });

  describe("cleanup of vendors' error messages", () => {
    const cleanUp = async (queries: Database, now: number): Promise<void> => {
      const { logger } = createTestLog();
      const steps = createCleanupSteps({
        database: queries,
        clock: { now: () => now },
        logger,
        periods: () => ({ errorRetentionMs: 30 * dayMs, refusedCallRetentionMs: 30 * dayMs }),
      });
      const step = steps.find(({ name }) => name === 'attempt-errors');
      while ((await step?.run(AbortSignal.timeout(60_000))) ?? 0);
    };

    test("deletes a vendor's error message along with the conversations of its project", async () => {
      const { gateway } = await fail('dead/any');
      const { gateway: other } = await fail('dead/any');
      await gateway.database.query(
        `insert into memory_settings (project_id, settings, updated_at)
         select id, '{"delete_conversations_after_days": 7}'::jsonb, now() from projects where slug = $1::text
             on conflict (project_id) do update set settings = excluded.settings`,
        [gateway.project],
      );
      await cleanUp(gateway.database, Date.now() + 8 * dayMs);
      expect([await failedCallsOf(gateway), (await failedCallsOf(other)).length]).toEqual([[], 1]);
    });

    test("keeps a vendor's error message if the deletion period is turned off during the cleanup", async () => {
      const { gateway } = await fail('dead/any');
      const settings = `/provision/teams/${gateway.project}/memory`;
      expect((await gateway.admin('PUT', settings, { delete_conversations_after_days: 7 })).status).toBe(200);
      const { database } = gateway;
      const changing: Database = {
        ...database,
        async query<Row>(text: string, values?: readonly unknown[]) {
          const rows = await database.query<Row>(text, values);
          if (text.includes('memory_settings')) await gateway.admin('PUT', settings, { delete_conversations_after_days: null });
          return rows;
        },
      };
      await cleanUp(changing, Date.now() + 8 * dayMs);
      expect(await failedCallsOf(gateway)).toHaveLength(1);
    });

    test("deletes a vendor's error message after its retention period and keeps the call", async () => {
      const { gateway, call } = await fail('dead/any');
      await cleanUp(gateway.database, Date.now() + 29 * dayMs);
      expect(await failedCallsOf(gateway)).toHaveLength(1);
      await cleanUp(gateway.database, Date.now() + 31 * dayMs);
      expect(await failedCallsOf(gateway)).toEqual([]);
      const { data } = await jsonOf<{ data: FailedCall[] }>(gateway.admin('GET', `/provision/teams/${gateway.project}/calls`));
      expect(data).toMatchObject([{ id: call.id, attempts: [{ error: null }] }]);
    });
  });
});
