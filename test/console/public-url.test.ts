/** Tests that the pages show the address at which people and applications reach the gateway. */
import { beforeAll, expect, test } from '@jest/globals';
import { type SignedIn, signIn } from '../support/console.ts';
import { defaultYaml, shareGateway } from '../support/gateway.ts';
import { textOf } from '../support/page-text.ts';

const address = 'https://gateway.example.com';
const yaml = (vendorUrl: string, deadUrl: string): string => `${defaultYaml(vendorUrl, deadUrl)}\npublic_url: ${address}\n`;
const gateway = shareGateway({ database: 'any', yaml });
const path = '/console/p/acme';
let admin: SignedIn;

beforeAll(async () => {
  admin = await signIn(gateway(), 'admin');
});

test("shows the gateway's public URL in example commands, links and client settings", async () => {
  const getting = await textOf(admin.get(`${path}/getting-started`));
  const key = await textOf(admin.post(`${path}/keys`, { name: 'shop' }));
  const playground = await textOf(admin.get(`${path}/playground?model=one/echo&prompt=hi`));
  const member = await textOf(admin.post(`${path}/members`, { email: 'nora@example.com', role: 'member' }));
  const token = await textOf(admin.post('/console/account/tokens', { name: 'laptop', days: '30', scopes: 'usage:read' }));
  const sent = await gateway().call('/v1/chat/completions', { model: 'one/echo', messages: [{ role: 'user', content: 'hi' }] });
  await sent.arrayBuffer();
  const call = await textOf(admin.get(`${path}/calls/${sent.headers.get('x-gateway-call-id')}?text=1`));
  expect(getting).toContain(`curl ${address}/v1/chat/completions`);
  expect(key).toContain(`curl ${address}/v1/chat/completions`);
  expect(playground).toContain(`curl '${address}/v1/chat/completions'`);
  expect(call).toContain(`curl '${address}/v1/chat/completions'`);
  expect(member).toContain(`${address}/console/sign-in/link?token=`);
  expect(token).toContain(`${address}/mcp`);
  for (const page of [getting, key, playground, member, token, call]) expect(page).not.toContain(gateway().url);
});
