/**
 * Tests that no form can block the event loop or fill the memory, whether or not its sender has signed in. The forms
 * come from the router's list, so these tests cover new ones as well.
 */
import { connect, type Socket } from 'node:net';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { addPerson, issueToken } from '../mcp/people.ts';
import { type SignedIn, signIn } from '../support/console.ts';
import { registeredRoutes } from '../support/console-routes.ts';
import { eventually, shareGateway } from '../support/gateway.ts';

const gateway = shareGateway({ database: 'any' });
let admin: SignedIn;
beforeAll(async () => {
  admin = await signIn(gateway(), 'admin');
});

const forms = registeredRoutes
  .filter(({ method }) => method === 'post')
  .map(({ path, access }) => {
    const base = { anyone: '', person: '/console', admin: '/console', member: '/console/p/acme', owner: '/console/p/acme' }[access];
    return { access, path: `${base}${path.replaceAll(/:\w+/g, '1')}` };
  });

const submit = (path: string, body: string, cookie?: string): Promise<Response> =>
  fetch(gateway().url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded', 'sec-fetch-site': 'same-origin', ...(cookie && { cookie }) },
    body,
    redirect: 'manual',
  });

/** Sends the headers of a form and `sent` bytes of its body, but not the rest. */
function sendPart(path: string, sent: number, headers: Readonly<Record<string, string>>): Socket {
  const { hostname, port } = new URL(gateway().url);
  const socket = connect(Number(port), hostname).on('error', () => undefined);
  const all = { host: 'gateway', 'content-type': 'application/x-www-form-urlencoded', 'content-length': String(sent + 1), ...headers };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`POST ${path} HTTP/1.1\r\n${lines.join('')}\r\n${'x'.repeat(sent)}`);
  return socket;
}

const expectHeldBytes = (bytes: number): Promise<void> =>
  eventually(async () => {
    const metrics = await (await gateway().admin('GET', '/metrics')).text();
    expect(/^gateway_body_memory_bytes (\d+)$/m.exec(metrics)?.[1]).toBe(String(bytes));
  });

describe('forms', () => {
  test.each(forms)('refuses a large form sent to $path without a session before parsing it', async ({ path, access }) => {
    const response = await submit(path, 'a&'.repeat(520_000));
    const signIn = response.headers.get('location');
    expect([response.status, signIn]).toEqual(access === 'anyone' ? [413, null] : [303, '/console/sign-in?next=%2Fconsole']);
  });

  test.each(forms)('refuses a form with too many fields sent to $path with a session', async ({ path }) => {
    const response = await submit(path, 'a&'.repeat(2_000), admin.cookie);
    expect(response.status).toBe(400);
    expect(await response.text()).toMatch(/The form has more than (?:100|2000) fields; go back, remove some of them and submit it again\./);
  });

  test('asks people to sign in instead of keeping a form with too many fields', async () => {
    const post = (fields: number) => submit('/console/p/acme/keys', 'a=b&'.repeat(fields));
    expect([(await post(200)).status, (await post(301)).status]).toEqual([401, 303]);
  });
});

test('keeps a form field whose name has thousands of parts when the user has to sign in', async () => {
  const name = 'x.'.repeat(7_000);
  const response = await submit('/console/p/acme/keys', `${name}=b`);
  expect(response.status).toBe(401);
  expect(await response.text()).toContain(`name="${name}"`);
});

test.each(['', '/stream', '/edit', '/code'])('refuses playground texts that are too long but accepts large images (%s)', async (route) => {
  const post = (field: string, value: string) => admin.post(`/console/p/acme/playground${route}`, { model: 'standard', [field]: value });
  const image = `data:image/png;base64,${'a'.repeat(600_000)}`;
  expect((await post('prompt', '"'.repeat(600_000))).status).toBe(413);
  expect((await post('image', image.replace('base64,', 'base64,"'))).status).toBe(413);
  expect((await post('turn_images', JSON.stringify([image, '"'.repeat(10)]))).status).toBe(413);
  expect((await post('turn_images', `[${'"",'.repeat(200_000)}""]`)).status).toBe(413);
  // People usually see their form again if it contains NUL, but a form that is too long isn't shown.
  expect((await (await post('prompt', `\0${'"'.repeat(600_000)}`)).text()).length).toBeLessThan(20_000);
  expect((await post('image', image)).status).toBe(200);
});

describe('memory used by request bodies', () => {
  test('counts the bytes of a form until the sender disconnects', async () => {
    for (const headers of [{}, { cookie: admin.cookie }]) {
      const sockets = forms.map(({ path }) => sendPart(path, 5_000, headers));
      await expectHeldBytes(forms.length * 5_000);
      for (const socket of sockets) socket.destroy();
      await expectHeldBytes(0);
    }
  });

  test('counts the bytes of MCP messages', async () => {
    const person = await addPerson(gateway(), ['acme']);
    const token = await issueToken(gateway(), person);
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json', host: new URL(gateway().url).host };
    const socket = sendPart('/mcp', 5_000, headers);
    await expectHeldBytes(5_000);
    socket.destroy();
    await expectHeldBytes(0);
  });

  test('limits forms from visitors in one network to a total of one mebibyte', async () => {
    const sockets = Array.from({ length: 64 }, () => sendPart('/console/sign-in', 16_383, {}));
    await expectHeldBytes(64 * 16_383);
    expect((await submit('/my-key', 'key=x'.padEnd(100, 'x'))).status).toBe(503);
    // People who have signed in aren't affected.
    expect((await submit('/my-key', 'key=x'.padEnd(100, 'x'), admin.cookie)).status).toBe(403);
    for (const socket of sockets) socket.destroy();
    await expectHeldBytes(0);
  });
});
