import { describe, expect, test } from '@jest/globals';
import { sharedChromium } from '../../support/chromium.ts';
import { expectAccessible, type SignedIn, signIn } from '../../support/console.ts';
import { type CallRow, jsonOf, shareGateway } from '../../support/gateway.ts';
import { hostileText } from '../frame/sample-pages.ts';

const gateway = shareGateway({ database: 'any' });
const chromium = sharedChromium();

const path = '/console/p/acme/playground';
const message = { prompt: 'hello there', system: 'Be brief.', other: '', temperature: '', max_tokens: '' };

async function latestCalls(): Promise<readonly (CallRow & { readonly source: string })[]> {
  return (await jsonOf<{ data: readonly (CallRow & { readonly source: string })[] }>(gateway().admin('GET', '/provision/teams/acme/calls')))
    .data;
}

/** Runs a model without a browser and returns its response with the figures and links of the call. */
async function runStreamed(person: SignedIn, fields: readonly (readonly [string, string])[]) {
  const body = new URLSearchParams();
  for (const [name, value] of fields) body.append(name, value);
  const token = /name="csrf" value="([^"]+)"/.exec(await (await person.get(path)).text())?.[1] ?? '';
  body.set('csrf', token);
  const headers = { cookie: person.cookie, 'sec-fetch-site': 'same-origin' };
  const response = await fetch(`${gateway().url}${path}/stream`, { method: 'POST', headers, body });
  const blocks = (await response.text()).split('\n\n').filter((block) => block !== '');
  const events = blocks.map((block) => {
    const [, kind = '', data = ''] = /^event: (\w+)\ndata: (.*)$/s.exec(block) ?? [];
    return { kind, data: JSON.parse(data) };
  });
  const text = events.map(({ kind, data }) => (kind === 'text' ? data.text : '')).join('');
  const { error, figures, links }: Ended = events.at(-1)?.data ?? { error: null, figures: [], links: [] };
  return { text, error, figures, links, href: links[0]?.[1] ?? '' };
}

interface Ended {
  readonly error: string | null;
  readonly figures: readonly (readonly [string, string])[];
  readonly links: readonly (readonly [string, string])[];
}

describe('playground', () => {
  test('compares the responses of two models without JavaScript', async () => {
    const person = await signIn(gateway(), 'member');
    const response = await person.post(path, { ...message, model: 'one/echo', other: 'three/echo' });
    const text = await response.text();
    expect(response.status).toBe(200);
    expect(text.match(/result-text">You said: hello there/g)).toHaveLength(2);
    const calls = (await latestCalls()).slice(0, 2);
    expect(calls.map(({ source }) => source)).toEqual(['gateway-playground', 'gateway-playground']);
    for (const { id, cost } of calls) {
      expect(text).toContain(`/console/p/acme/calls/${id}`);
      expect(cost).toBeGreaterThan(0);
    }
  });

  test('streams a playground response and keeps its text out of the audit log', async () => {
    const person = await signIn(gateway(), 'member');
    const response = await person.post(`${path}/stream`, { ...message, model: 'one/long-20+pace-3' });
    expect(response.headers.get('content-type')).toBe('text/event-stream');
    const events = (await response.text()).split('\n\n').filter((block) => block !== '');
    expect(events.length).toBeGreaterThan(5);
    expect(events.slice(0, -1).every((block) => block.startsWith('event: text\n'))).toBe(true);
    expect(events.at(-1)).toMatch(/^event: end\ndata: \{"error":null,"figures":\[\["Model","one\/long-20\+pace-3"\],\["Latency"/);
    const [row] = await gateway().database.query<{ action: string; outcome: string; detail: unknown }>(
      'select action, outcome, detail from audit_log where person_id = $1::uuid',
      [person.personId],
    );
    expect(row).toEqual({ action: 'playground.run', outcome: 'ok', detail: { models: ['one/long-20+pace-3'] } });
  });

  test("enforces the ceilings of the playground's application and explains the refusal", async () => {
    const { app, withProject } = gateway();
    const limited = await withProject('limited');
    const project = await app.projects.findBySlug('limited');
    await app.projects.applications.put(project?.id ?? '', 'gateway-playground', { ceilings: { calls: 1 } });
    const person = await signIn(limited, 'member');
    const run = async () => (await person.post('/console/p/limited/playground', { ...message, model: 'one/echo' })).text();
    expect(await run()).toContain('You said: hello there');
    expect(await run()).toContain('Source budget exceeded for &#39;gateway-playground&#39; (calls).');
  });

  test("shows why one model failed next to the other model's response", async () => {
    const person = await signIn(gateway(), 'member');
    const text = await (await person.post(path, { ...message, model: 'one/fail-500', other: 'one/break-after-2' })).text();
    expect(text).toContain('the vendor responded with 500');
    expect(text).toContain('The response ended before it was complete.');
  });

  test.each([
    [{ prompt: ' ' }, 'The message must not be empty.'],
    [{ temperature: '3' }, 'Temperature must be a number from 0 to 2.'],
    [{ max_tokens: '1.5' }, 'Max tokens must be a positive whole number.'],
    [{ model: '' }, 'Choose a model.'],
  ])("returns 422 for the playground input %j and keeps the form's values", async (change, problem) => {
    const person = await signIn(gateway(), 'member');
    const response = await person.post(path, { ...message, model: 'one/echo', system: 'Be brief.', ...change });
    expect(response.status).toBe(422);
    const text = await response.text();
    expect(text).toContain(problem);
    expect(text).toContain('Be brief.');
  });

  test.each([
    [{ tools: '[{' }, 'The tools must be JSON'],
    [{ tools: '[{"parameters": {}}]' }, 'Each tool needs a name.'],
    [{ schema: '[]' }, 'The schema must be a JSON object.'],
    [{ image: 'ftp://example.com/cat.png' }, 'The address of an image must begin with https:// or http://.'],
    [{ subject: 'a\tb' }, 'The end user must have 1 to 256 characters'],
    [{ turn_role: 'assistant', turn_text: '', turn_images: '', turn_calls: '', turn_call_id: '' }, 'Turn 1 must not be empty.'],
  ])('rejects the invalid playground input %j', async (change, problem) => {
    const person = await signIn(gateway(), 'member');
    const response = await person.post(path, { ...message, model: 'one/echo', ...change });
    expect([response.status, await response.text()]).toEqual([422, expect.stringContaining(problem)]);
  });

  test('sends the whole conversation with tools, an image and a JSON schema', async () => {
    const person = await signIn(gateway(), 'member');
    const turn = (role: string, text: string, more: Readonly<Record<string, string>> = {}) => ({
      ...{ turn_role: role, turn_text: text, turn_images: '', turn_calls: '', turn_call_id: '', ...more },
    });
    const call = { id: 'call_1', name: 'get_weather', arguments: '{"city":"Oslo"}' };
    const fields = [
      {
        ...message,
        model: 'one/echo-body',
        image: 'https://example.com/cat.png',
        tools: '{"name": "get_weather", "input_schema": {"type": "object"}}',
      },
      { schema: '{"type": "object", "properties": {"city": {"type": "string"}}}' },
      turn('user', 'How is Oslo?'),
      turn('assistant', '', { turn_calls: JSON.stringify([call]) }),
      turn('tool', 'Sunny', { turn_call_id: 'call_1' }),
      turn('assistant', 'It is sunny.'),
    ];
    const { text, href } = await runStreamed(
      person,
      fields.flatMap((group) => Object.entries(group)),
    );
    expect(href).toContain('/console/p/acme/calls/');
    expect(JSON.parse(text)).toMatchObject({
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'How is Oslo?' },
        {
          role: 'assistant',
          content: null,
          tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'get_weather', arguments: '{"city":"Oslo"}' } }],
        },
        { role: 'tool', tool_call_id: 'call_1', content: 'Sunny' },
        { role: 'assistant', content: 'It is sunny.' },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'hello there' },
            { type: 'image_url', image_url: { url: 'https://example.com/cat.png' } },
          ],
        },
      ],
      tools: [{ type: 'function', function: { name: 'get_weather', parameters: { type: 'object' } } }],
      response_format: { type: 'json_schema', json_schema: { name: 'response', strict: true, schema: { type: 'object' } } },
    });
  });

  test('continues a conversation after a tool call without JavaScript', async () => {
    const context = await chromium().newContext({ javaScriptEnabled: false });
    const page = await context.newPage();
    await (await signIn(gateway(), 'member')).useIn(context);
    await page.goto(gateway().url + path);
    await page.getByLabel('Model', { exact: true }).selectOption('one/echo');
    await page.getByText('Tools', { exact: true }).click();
    await page.getByLabel('Tools as JSON').fill('{"name": "get_weather", "parameters": {"type": "object"}}');
    await page.getByLabel('Message').fill('What is the get_weather in Oslo?');
    await page.getByRole('button', { name: 'Run' }).click();
    await page.getByText('Calls get_weather').waitFor();
    await page.getByRole('button', { name: 'Continue with this response' }).click();
    await page.getByLabel('Result of get_weather').fill('Sunny');
    await page.getByRole('button', { name: 'Run' }).click();
    await page.getByText('The tool said: Sunny').waitFor();
    await page.getByRole('button', { name: 'Continue with this response' }).click();
    expect(await page.getByRole('list', { name: 'Conversation' }).getByRole('listitem').count()).toBe(4);
    await page.getByLabel('Message').fill('Thanks');
    await page.getByRole('button', { name: 'Run' }).click();
    await page.getByText('You said: Thanks').waitFor();
    await page.getByRole('button', { name: 'Remove turn 1' }).click();
    expect(await page.getByRole('list', { name: 'Conversation' }).getByRole('listitem').count()).toBe(3);
    await page.getByRole('button', { name: 'Start over' }).click();
    expect(await page.getByRole('list', { name: 'Conversation' }).count()).toBe(0);
    await context.close();
  });

  test('recalls memories in the playground only on request', async () => {
    const { database, call } = gateway();
    await (await call('/v1/memory/items', { text: 'Ann drinks green tea', subject: 'ann' })).arrayBuffer();
    const person = await signIn(gateway(), 'member');
    const asked = { ...message, system: '', model: 'one/echo-body', prompt: 'Which tea does Ann drink?', subject: 'ann' };
    const plain = await runStreamed(person, Object.entries(asked));
    expect(plain.text).not.toContain('green tea');
    const recalled = await runStreamed(person, Object.entries({ ...asked, memory: 'recall' }));
    expect(recalled.text).toContain('Ann drinks green tea');
    expect(recalled.figures).toContainEqual(['Memories', '1']);
    expect(recalled.links[1]?.[1]).toMatch(/^\/console\/p\/acme\/memory\//);
    const rows = await database.query(`select conversation_id as conversation from call_texts where call_id = any ($1::uuid[])`, [
      [plain.href, recalled.href].map((href) => href.split('/').at(-1)),
    ]);
    expect(rows).toEqual([{ conversation: null }, { conversation: null }]);
  });

  test('fills the playground form with a stored call', async () => {
    const person = await signIn(gateway(), 'member');
    const { call, admin } = gateway();
    const body = {
      model: 'one/echo',
      tools: [{ type: 'function', function: { name: 'lookup', parameters: { type: 'object' } } }],
      messages: [
        { role: 'system', content: 'Be kind.' },
        { role: 'user', content: 'Look it up' },
        { role: 'assistant', content: null, tool_calls: [{ id: 'x', type: 'function', function: { name: 'lookup', arguments: '{}' } }] },
        { role: 'tool', tool_call_id: 'x', content: 'Found <b>it</b>' },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'And this?' },
            { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
          ],
        },
      ],
    };
    const answered = await call('/v1/chat/completions', body);
    await answered.arrayBuffer();
    const id = answered.headers.get('x-gateway-call-id') ?? '';
    await admin('GET', '/provision/teams/acme/calls'); // Waits until the call is stored.
    const context = await chromium().newContext();
    const page = await context.newPage();
    await person.useIn(context);
    await page.goto(`${gateway().url}${path}?from=${id}`);
    expect(await page.getByLabel('System prompt').inputValue()).toBe('Be kind.');
    expect(await page.getByLabel('Message').inputValue()).toBe('And this?');
    expect(await page.evaluate(`[...document.querySelectorAll('[name="turn_text"]')].map(({ value }) => value)`)).toEqual([
      'Look it up',
      '',
      'Found <b>it</b>',
    ]);
    expect(JSON.parse(await page.getByLabel('Tools as JSON').inputValue())).toEqual(body.tools);
    await page.getByText('Images and files are missing').waitFor();
    await expectAccessible(page);
    await page.getByRole('button', { name: 'Run' }).click();
    await page.getByText('You said: And this?').waitFor();
    await context.close();
  });

  test('returns 404 for an unknown or invalid call id', async () => {
    const person = await signIn(gateway(), 'member');
    const statuses = await Promise.all(
      ['019aa000-0000-7000-8000-000000000000', 'x'].map(async (id) => (await person.get(`${path}?from=${id}`)).status),
    );
    expect(statuses).toEqual([404, 404]);
  });

  test('attaches an image file to a playground message in a browser', async () => {
    const context = await chromium().newContext();
    const page = await context.newPage();
    await (await signIn(gateway(), 'member')).useIn(context);
    await page.goto(gateway().url + path);
    await page.getByLabel('Model', { exact: true }).selectOption('one/echo');
    await page.getByText('Images', { exact: true }).click();
    await page.getByLabel('File').setInputFiles({ name: 'dot.png', mimeType: 'image/png', buffer: Buffer.from('iVBORw0KGgo=', 'base64') });
    await page.getByRole('button', { name: 'Remove dot.png' }).waitFor();
    await page.getByLabel('Message').fill('Look');
    await page.locator('#code').getByText('data:image/png;base64,<BASE64>').first().waitFor();
    await page.getByRole('button', { name: 'Run' }).click();
    await page.getByText('You said: Look (and sent 1 attachment)').waitFor();
    await page.getByRole('button', { name: 'Continue with this response' }).click();
    await page.locator('.turns img').waitFor();
    await context.close();
  });

  test('restores the playground conversation if the session expires while somebody is typing', async () => {
    const context = await chromium().newContext();
    const page = await context.newPage();
    const person = await signIn(gateway(), 'member');
    await person.useIn(context);
    await page.goto(gateway().url + path);
    await page.getByLabel('Model', { exact: true }).selectOption('one/echo');
    await gateway().database.query('delete from sessions where person_id = $1::uuid', [person.personId]);
    await page.getByLabel('Message').fill('A long story');
    await page.locator('#code').getByText('Your session has ended').waitFor();
    expect(await page.getByLabel('Message').inputValue()).toBe('A long story');
    await page.getByRole('button', { name: 'Run' }).click();
    await page.getByRole('heading', { name: 'Your session has ended' }).waitFor();
    await (await signIn(gateway(), 'member')).useIn(context);
    await page.getByRole('button', { name: 'Send again' }).click();
    await page.getByText('You said: A long story').waitFor();
    await context.close();
  });

  test("the playground doesn't offer embedding models", async () => {
    const person = await signIn(gateway(), 'member');
    const options = (await (await person.get(path)).text()).match(/<option value="[^"]*"/g);
    expect(options).toContain('<option value="one/echo"');
    expect(options?.filter((option) => option.includes('embed'))).toEqual([]);
  });

  test('the playground returns 404 to strangers without calling a model', async () => {
    const person = await signIn(gateway(), 'stranger');
    expect((await person.post(`${path}/stream`, { ...message, model: 'one/echo' })).status).toBe(404);
    expect((await person.get(path)).status).toBe(404);
  });

  test('streams the responses of two models side by side in a browser', async () => {
    const context = await chromium().newContext();
    const page = await context.newPage();
    const problems: string[] = [];
    page.on('console', (entry) => entry.type() === 'error' && problems.push(entry.text()));
    await (await signIn(gateway(), 'member')).useIn(context);
    await page.goto(gateway().url + path);
    await page.getByLabel('Model', { exact: true }).selectOption('one/echo');
    await page.getByLabel('Compare with').selectOption('four/echo');
    await page.getByLabel('Message').fill(hostileText);
    await page.getByLabel('Message').press('Control+Enter');
    await page.getByRole('link', { name: 'Show the call' }).nth(1).waitFor();
    const texts = await page.locator('.result-text').allTextContents();
    expect(texts).toEqual([`You said: ${hostileText}`, `You said: ${hostileText}`]);
    await page.locator('#code').getByText('document.title').first().waitFor();
    expect(await page.title()).toBe('Playground · acme · Gateway');
    await expectAccessible(page);
    expect(problems).toEqual([]);
    await context.close();
  });
});
