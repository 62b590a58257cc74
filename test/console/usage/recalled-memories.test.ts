/** Tests what a call's page says about the memories that recall put into its prompt. */
import { expect, test } from '@jest/globals';
import { providersYaml } from '../../service/dialects-gateway.ts';
import { signIn } from '../../support/console.ts';
import { jsonOf, shareGateway } from '../../support/gateway.ts';

const said = `say-${Buffer.from('Oolong from Taiwan is served.').toString('base64url')}`;
const yaml = (vendorUrl: string, deadUrl: string) => `
${providersYaml(vendorUrl, deadUrl)}
models: { one/echo: { input: 1000, output: 2 }, one/${said}: { input: 1000, output: 2 } }
tiers: { standard: [one/echo] }
memory: { recall_deadline_ms: 20000 }
`;

const gateway = shareGateway({ database: 'any', yaml, cache: true });
const memory = (text: string) => jsonOf<{ id: string }>(gateway().call('/v1/memory/items', { text }));

async function showCall(model: string, headers: Record<string, string> = { 'x-gateway-memory': 'recall' }): Promise<string> {
  const body = { model, messages: [{ role: 'user', content: 'Which tea do guests get?' }] };
  const response = await gateway().call('/v1/chat/completions', body, headers);
  await response.text();
  const person = await signIn(gateway(), 'member');
  const page = await person.get(`/console/p/acme/calls/${response.headers.get('x-gateway-call-id')}`);
  return (await page.text()).replaceAll(/\s+/g, ' ');
}

test("shows a call's recalled memories, their cost, and which ones the response mentions", async () => {
  const [oolong, sencha] = [await memory('Guests get a tea from Taiwan <b>Oolong'), await memory('Guests get cold tea in summer')];
  const page = await showCall(`one/${said}`);
  expect(page).toContain('2 memories were added to the prompt');
  const [, tokens = '', cost = ''] = /about <strong>(\d+) tokens<\/strong>, which cost <span[^>]*title="([\d.]+) USD"/.exec(page) ?? [];
  expect(Number(tokens)).toBeGreaterThan(80);
  expect(Number(cost)).toBeCloseTo(Number(tokens) / 1_000, 6);
  for (const { id } of [oolong, sencha]) expect(page).toContain(`/console/p/acme/memory/${id}"`);
  expect(page).toContain('Guests get a tea from Taiwan &lt;b&gt;Oolong');
  expect(page).toContain('The response mentions 1 of them.');
  expect(page).toContain('taiwan, oolong');

  const echoed = await showCall('one/echo');
  expect(echoed).toContain('The response mentions none of them.');
  expect(await showCall('one/echo')).toContain('cost nothing because the response came from the response cache');
});

test('says if no memories were added to a call', async () => {
  const page = await showCall('one/echo', { 'cache-control': 'no-store' });
  expect(page).toContain('No memories were added to the prompt.');
  expect(page).not.toContain('The response mentions');
});
