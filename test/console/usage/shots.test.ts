/** Tests how people find a call, learn why it failed and repeat it, and that the gateway's own calls stay out of the way. */
import { beforeAll, test } from '@jest/globals';
import { memoryApplication } from '../../../src/core/call.ts';
import { newId } from '../../../src/core/ids.ts';
import { storeCalls } from '../../../src/usage/store-calls.ts';
import { type CallChanges, settledCall } from '../../journal/calls.ts';
import { sharedChromium } from '../../support/chromium.ts';
import { type SignedIn, signIn } from '../../support/console.ts';
import { shareGateway } from '../../support/gateway.ts';

const gateway = shareGateway({ database: 'any' });
const chromium = sharedChromium();
const noCorrelation = settledCall().metadata.correlation;
const ids = { slow: '', dear: '', own: '', broken: '' };
let member: SignedIn;

beforeAll(async () => {
  const { app, database } = gateway();
  const { project } = await app.projects.put('acme', {});
  member = await signIn(gateway(), 'member');
  const now = Date.now();
  const call = (age: number, { metadata = {}, ...changes }: CallChanges = {}) =>
    settledCall({ ...changes, metadata: { projectId: project.id, id: newId(now - age), startedAt: now - age, ...metadata } });
  const user = { mode: 'write', explicitWrite: false, subject: 'user 7' } as const;
  const slow = call(9_000, {
    metadata: { source: 'web', memory: user, correlation: { ...noCorrelation, taskId: 'ticket-9' } },
    result: { durationMs: 45_000 },
  });
  const dear = call(8_000, { metadata: { source: 'batch' }, result: { costNanos: 2_500_000_000, model: 'two/large' } });
  const broken = call(7_000, {
    metadata: { source: 'web', stream: true },
    result: {
      outcome: 'interrupted',
      code: 'upstream_failed',
      tokens: { input: 10, cachedInput: 0, cacheWrite: 0, cacheWrite1h: 0, output: 2 },
    },
  });
  const own = Array.from({ length: 3 }, (_, index) =>
    call(6_000 + index, { metadata: { source: memoryApplication }, result: { costNanos: 40_000_000 } }),
  );
  Object.assign(ids, { slow: slow.metadata.id, dear: dear.metadata.id, own: own[0]?.metadata.id ?? '', broken: broken.metadata.id });
  await database.transaction((tx) => storeCalls(tx, [slow, dear, broken, ...own]));
});


test('shots', async () => {
  const { call } = gateway();
  const tool = { type: 'function', function: { name: 'find_order', parameters: { type: 'object', properties: {} } } };
  const messages = [
    { role: 'system', content: "Be brief, it's late" },
    { role: 'user', content: 'Where is my order?' },
    { role: 'assistant', content: null, tool_calls: [{ id: 'c1', type: 'function', function: { name: 'find_order', arguments: '{}' } }] },
    { role: 'tool', tool_call_id: 'c1', content: 'in Bremen' },
  ];
  const ok = await call('/v1/chat/completions', { model: 'one/echo', temperature: 0.2, max_tokens: 50, tools: [tool], messages });
  await ok.arrayBuffer();
  await gateway().admin('PUT', '/provision/teams/acme', { tiers: { shaky: ['one/fail-500', 'two/refuse-400', 'dead/any'] } });
  const bad = await call('/v1/chat/completions', { model: 'shaky', messages: [{ role: 'user', content: 'hi' }] });
  await bad.arrayBuffer();
  const pages: [string, string][] = [
    ['calls', '/calls'],
    ['filters', '/calls?not_source=x&min_ms=5&own=show'],
    ['failed', `/calls/${bad.headers.get('x-gateway-call-id')}`],
    ['text', `/calls/${ok.headers.get('x-gateway-call-id')}?text=1`],
    ['find', '/find?q=e'],
    ['overview', '/overview'],
    ['explore', '/explore'],
  ];
  for (const [size, width] of [['desktop', 1280], ['tablet', 820], ['phone', 390]] as const)
    for (const scheme of ['light', 'dark'] as const) {
      const context = await chromium().newContext({ viewport: { width, height: 900 }, colorScheme: scheme });
      await member.useIn(context);
      const page = await context.newPage();
      for (const [name, path] of pages) {
        await page.goto(`${gateway().url}/console/p/acme${path}`);
        await page.screenshot({ path: `/tmp/c2shots/${name}-${size}-${scheme}.png`, fullPage: true });
      }
      await page.keyboard.press('Control+K');
      await page.getByRole('dialog').getByRole('link').first().waitFor();
      await page.screenshot({ path: `/tmp/c2shots/palette-${size}-${scheme}.png` });
      await context.close();
    }
}, 300_000);
