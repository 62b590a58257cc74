/** Tests failover from the perspective of callers and operators (see docs/architecture/routing-and-failover.md). */
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { CallRow, TestGateway } from '../support/gateway.ts';
import { callsOf, defaultYaml, eventually, jsonOf, shareGateway } from '../support/gateway.ts';
import { readUntilCut } from '../support/read-until-cut.ts';

const firsts = {
  'after-500': 'fail-500',
  'after-529': 'fail-529',
  'after-garbage': 'garbage',
  'after-empty': 'empty',
  'after-401': 'fail-401',
  'after-404': 'not-found',
  'after-refusal': 'refuse-400',
  'after-429': 'rate-limited-60',
  'after-redirect': 'redirect',
  'after-early-break': 'break-before-first',
  'after-early-error': 'error-before-first',
};

/** Returns the tiers of one dialect over its two providers and one that refuses connections. */
const tiersOf = (dialect: string, { one, two, dead, hasty }: Record<'one' | 'two' | 'dead' | 'hasty', string>): string =>
  [
    ...Object.entries(firsts).map(([tier, first]) => `${tier}: [${one}/${first}, ${two}/echo]`),
    `after-hang: [${hasty}/hang, ${two}/echo]`,
    `after-refused-connection: [${dead}/any, ${two}/echo]`,
    `all-refuse: [${one}/refuse-422, ${two}/refuse-400]`,
    `some-refuse: [${one}/refuse-400, ${two}/fail-503]`,
    `all-fail: [${one}/fail-500, ${two}/fail-503]`,
    `unreachable: [${dead}/a, ${dead}/b]`,
    `limited-once: [${one}/rate-limited-once-0.05+${dialect}]`,
    `limited-always: [${one}/rate-limited-0.05, ${one}/echo]`,
    `quota: [${one}/quota]`,
    `spend-limit: [${one}/spend-limit]`,
    `slow: [${one}/slow-10]`,
    `silent: [${one}/hang]`,
    `cut: [${one}/break-after-3+long-20, ${two}/echo]`,
  ]
    .map((line) => `  ${dialect}-${line}\n`)
    .join('');

const chains = (vendorUrl: string, deadUrl: string): string =>
  defaultYaml(vendorUrl, deadUrl)
    .replace(
      'models:\n',
      `  mute: { base_url: "https://127.0.0.1:${portOf(mute)}/v1", api_key: key-mute, dialect: chat }\nmodels:\n  mute/voice: { per_million_characters: 15 }\n`,
    )
    .replace('models:\n', `${hastyRow(vendorUrl, 'hasty', 'chat')}${hastyRow(vendorUrl, 'hasty-messages', 'messages')}models:\n`)
    .replace(
      'tiers:\n',
      `tiers:\n${tiersOf('chat', { one: 'one', two: 'two', dead: 'dead', hasty: 'hasty' })}${tiersOf('messages', {
        one: 'three',
        two: 'four',
        dead: 'dead-messages',
        hasty: 'hasty-messages',
      })}`,
    );

/** A provider with a short timeout. */
function hastyRow(vendorUrl: string, name: string, dialect: string): string {
  return `  ${name}: { base_url: ${vendorUrl}/v1, api_key: key-${name}, dialect: ${dialect}, first_byte_timeout_ms: 500 }\n`;
}

/** Accepts connections but never sends a byte, so TLS is never established. */
const mute = createServer();
const muteSockets: Socket[] = [];
beforeAll(async () => {
  mute.on('connection', (socket) => muteSockets.push(socket.on('error', () => {})));
  await once(mute.listen(0, '127.0.0.1'), 'listening');
});
afterAll(() => {
  for (const socket of muteSockets) socket.destroy();
  mute.close();
});

const lent = shareGateway({ database: 'any', yaml: chains });
let projects = 0;

/** Each test has its own project and therefore its own breakers. */
async function withProject(work: (gateway: TestGateway) => Promise<void>): Promise<void> {
  projects += 1;
  await work(await lent().withProject(`project-${projects}`));
}

const bodyOf = (model: string, stream: boolean) => ({ model, stream, max_tokens: 50, messages: [{ role: 'user', content: 'hi' }] });
const routes = [
  { path: '/v1/chat/completions', dialect: 'chat', second: 'two/echo' },
  { path: '/v1/messages', dialect: 'messages', second: 'four/echo' },
] as const;

async function lastCall(gateway: TestGateway): Promise<CallRow> {
  const [call] = await callsOf(gateway, '?limit=1');
  if (!call) throw new Error('no call was recorded');
  return call;
}

describe.each(routes)('on $path', ({ path, dialect, second }) => {
  const errorOf = async (answer: Response) => (await jsonOf<{ error: { message: string; type: string } }>(answer)).error;
  const message = async (answer: Response): Promise<string> => (await errorOf(answer)).message;

  it.each([
    'after-500',
    'after-529',
    'after-hang',
    'after-refused-connection',
    'after-garbage',
    'after-empty',
    'after-401',
    'after-404',
    'after-refusal',
    'after-redirect',
  ])('fails over to the second model %s', (tier) =>
    withProject(async (gateway) => {
      for (const stream of [false, true]) {
        const answer = await gateway.call(path, bodyOf(`${dialect}-${tier}`, stream));
        expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('hi')]);
        expect(answer.headers.get('x-gateway-model')).toBe(second);
        const call = await lastCall(gateway);
        expect(call).toMatchObject({ id: answer.headers.get('x-gateway-call-id'), model: second, outcome: 'ok', stream });
        expect(call.attempts).toMatchObject([
          { n: 1, outcome: tier === 'after-refusal' ? 'refused' : 'failed', cost: tier === 'after-hang' ? null : 0 },
          { n: 2, outcome: 'ok', status: 200 },
        ]);
        expect(call.plan.filter((line) => line.skipped === null)).toHaveLength(2);
      }
    }),
  );

  it('tries a rate-limited vendor last during its cooldown', () =>
    withProject(async (gateway) => {
      expect((await gateway.call(path, bodyOf(`${dialect}-after-429`, false))).headers.get('x-gateway-model')).toBe(second);
      expect((await lastCall(gateway)).attempts).toMatchObject([
        { n: 1, status: 429, outcome: 'failed' },
        { n: 2, status: 200 },
      ]);
      expect((await gateway.call(path, bodyOf(`${dialect}-after-429`, false))).headers.get('x-gateway-model')).toBe(second);
      expect((await lastCall(gateway)).attempts).toMatchObject([{ n: 1, status: 200 }]);
    }));

  it.each(['after-early-break', 'after-early-error'])('fails over if a stream fails before its first chunk (%s)', (tier) =>
    withProject(async (gateway) => {
      const answer = await gateway.call(path, bodyOf(`${dialect}-${tier}`, true));
      expect(answer.headers.get('x-gateway-model')).toBe(second);
      expect(await answer.text()).toContain(dialect === 'chat' ? '[DONE]' : 'message_stop');
    }),
  );

  it.each(['break-after-3', 'error-after-3'])('does not fail over if a stream fails after its first chunk (%s)', (fault) =>
    withProject(async (gateway) => {
      const model = `${dialect === 'chat' ? 'one' : 'three'}/${fault}+long-20`;
      const answer = await gateway.call(path, bodyOf(model, true));
      const { text, isCut } = await readUntilCut(answer);
      expect([answer.status, isCut]).toEqual([200, true]);
      expect(text).not.toContain('[DONE]');
      expect(text).not.toContain('message_stop');
      if (dialect === 'messages') expect(text.match(/^event: error$/gm)).toHaveLength(1);
      const call = await lastCall(gateway);
      expect(call).toMatchObject({ outcome: 'interrupted', estimated: true, attempts: [{ outcome: 'interrupted' }] });
      expect(call.tokens.output).toBeGreaterThan(0);
    }),
  );

  it('opens the breaker of a vendor after five broken streams in a row', () =>
    withProject(async (gateway) => {
      for (let n = 0; n < 5; n += 1) {
        const answer = await gateway.call(path, bodyOf(`${dialect}-cut`, true));
        expect(answer.headers.get('x-gateway-model')).toBe(`${dialect === 'chat' ? 'one' : 'three'}/break-after-3+long-20`);
        await readUntilCut(answer);
      }
      const answer = await gateway.call(path, bodyOf(`${dialect}-cut`, true));
      expect([answer.headers.get('x-gateway-model'), await answer.text()]).toEqual([second, expect.stringContaining('hi')]);
      expect(gateway.logs.filter((line) => line.includes('"msg":"circuit breaker opened"'))).toContainEqual(
        expect.stringContaining(`"provider":"${dialect === 'chat' ? 'one' : 'three'}"`),
      );
    }));

  it("returns the first vendor's status and message if every model refuses", () =>
    withProject(async (gateway) => {
      const answer = await gateway.call(path, bodyOf(`${dialect}-all-refuse`, false));
      expect(answer.status).toBe(422);
      const error = await errorOf(answer);
      if (dialect === 'chat') expect(error).toMatchObject({ code: 'upstream_refused', type: 'upstream_refused' });
      else expect(error.type).toBe('invalid_request_error');
      expect(await lastCall(gateway)).toMatchObject({
        outcome: 'refused',
        status: 422,
        code: 'upstream_refused',
        attempts: [{ outcome: 'refused' }, { outcome: 'refused' }],
      });
    }));

  it.each([
    ['some-refuse', 502],
    ['all-fail', 502],
    ['unreachable', 503],
    ['quota', 502],
    ['spend-limit', 502],
  ])('returns upstream_failed if every model fails (%s)', (tier, status) =>
    withProject(async (gateway) => {
      const answer = await gateway.call(path, bodyOf(`${dialect}-${tier}`, false));
      expect(answer.status).toBe(status);
      expect(answer.headers.get('retry-after')).toBeNull();
      expect(await message(answer)).toMatch(/^(two|four|dead|dead-messages|one|three)\//);
      const { attempts, ...call } = await lastCall(gateway);
      expect(call).toMatchObject({ outcome: 'failed', code: 'upstream_failed' });
      // A retry doesn't help if a quota is exhausted, however the vendor's error says so.
      if (tier === 'quota' || tier === 'spend-limit') expect(attempts).toHaveLength(1);
    }),
  );

  it('waits and retries the same model after a 429 if there is no other vendor', () =>
    withProject(async (gateway) => {
      const answer = await gateway.call(path, bodyOf(`${dialect}-limited-once`, false));
      expect(answer.status).toBe(200);
      expect((await lastCall(gateway)).attempts).toMatchObject([
        { status: 429, wait_ms: 0 },
        { status: 200, wait_ms: 50 },
      ]);
      await gateway.call(path, bodyOf(`${dialect}-limited-always`, false));
      expect((await lastCall(gateway)).attempts).toMatchObject([
        { status: 429 },
        { status: 429, wait_ms: 50 },
        { status: 200, model: 'echo' },
      ]);
    }));

  it("returns 502 `client deadline exceeded` when the caller's deadline passes", () =>
    withProject(async (gateway) => {
      const answers = await Promise.all(
        [false, true].map((stream) => gateway.call(path, bodyOf(`${dialect}-silent`, stream), { 'x-gateway-timeout-ms': '3000' })),
      );
      for (const answer of answers) {
        expect([502, 503]).toContain(answer.status);
        expect(await message(answer)).toMatch(/^client deadline exceeded/);
      }
      // The vendor has received the prompt and may bill it.
      const ended = { outcome: 'deadline', estimated: true, attempts: [{ outcome: 'deadline' }] };
      const rows = await callsOf(gateway);
      expect(rows).toMatchObject([ended, ended]);
      for (const { tokens } of rows) expect(tokens.input).toBeGreaterThan(0);
      expect((await gateway.call(path, bodyOf(`${dialect}-slow`, false), { 'x-gateway-timeout-ms': '-5' })).status).toBe(200);
    }));
});

it('charges nothing if the deadline passes before the vendor is connected', () =>
  withProject(async (gateway) => {
    const answer = await gateway.call('/v1/chat/completions', bodyOf('mute/any', false), { 'x-gateway-timeout-ms': '2000' });
    expect(await jsonOf(answer)).toMatchObject({ error: { message: expect.stringMatching(/^client deadline exceeded/) } });
    const attempts = [{ outcome: 'deadline', status: null }];
    expect(await lastCall(gateway)).toMatchObject({ outcome: 'deadline', estimated: false, tokens: { input: 0 }, attempts });
  }));

it('charges an estimate if a plain call times out', () =>
  withProject(async (gateway) => {
    expect((await gateway.call('/v1/chat/completions', bodyOf('hasty/hang', false))).status).toBe(502);
    const call = await lastCall(gateway);
    expect(call).toMatchObject({ outcome: 'failed', estimated: true, attempts: [{ outcome: 'failed', status: null }] });
    expect(call.tokens.input).toBeGreaterThan(0);
    // The gateway estimates a hundred tokens per second, and the call ends after half a second.
    expect(call.tokens.output).toBeGreaterThanOrEqual(40);
  }));

it('charges nothing for speech if the caller leaves before the vendor is connected', () =>
  withProject(async (gateway) => {
    const { length } = muteSockets;
    const caller = new AbortController();
    const spoken = fetch(`${gateway.url}/v1/audio/speech`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'mute/voice', input: 'Hello' }),
      signal: caller.signal,
    });
    await eventually(async () => expect(muteSockets.length).toBeGreaterThan(length));
    caller.abort();
    await expect(spoken).rejects.toThrow('aborted');
    const free = { outcome: 'client_left', estimated: false, cost: 0, attempts: [{ outcome: 'client_left', status: null }] };
    await eventually(async () => expect(await lastCall(gateway)).toMatchObject(free));
  }));

function portOf(server: Server): number {
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server is not listening on a port');
  return address.port;
}
