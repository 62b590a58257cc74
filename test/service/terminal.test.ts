/** Runs `npm start` on a pseudo-terminal, which is closed when the program that opened it dies. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { eventually, jsonOf } from '../support/gateway.ts';
import { createProcesses, type GatewayProcess, processesOf, root, shortLived } from '../support/gateway-process.ts';

const processes = createProcesses();
afterAll(processes.stopAll);

const start = [process.execPath, ...shortLived, join(root, 'scripts', 'start.js')].join(' ');

/**
 * `script` from util-linux runs the command on a new terminal, whose output becomes the standard output of the process.
 */
const onTerminal = (home: string, command: string, env: Record<string, string> = {}): Promise<GatewayProcess> =>
  processes.start('start', { home, env, program: ['script', '-qefc', `stty -onlcr; ${command}`, '/dev/null'] });

(process.platform === 'linux' ? describe : describe.skip)('npm start on a terminal', () => {
  it('prints a sign-in link only until the first account exists and logs JSON if LOG_FORMAT is json', async () => {
    const { home, env } = await processes.homeWithAnyDatabase();
    const readable = await onTerminal(home, `exec ${start}`, env);
    expect(readable.stdout()).toMatch(/^\d\d:\d\d:\d\d INFO {2}listening url=http:\S+ role=start version=\S+$/m);
    expect(readable.logs()).toEqual([]);
    const link = /First sign-in +(http\S+)/.exec(readable.stdout())?.[1] ?? '';
    expect(link).toContain(`${readable.url}/console/sign-in/link?token=`);
    await createAccount(link);
    expect((await fetch(link)).status).toBe(404);
    await readable.end('SIGTERM');
    await eventually(async () => expect(await processesOf(home)).toEqual([]));

    const json = await onTerminal(home, `exec ${start}`, { ...env, LOG_FORMAT: 'json' });
    expect(json.logs()).toContainEqual(expect.objectContaining({ msg: 'listening', role: 'start' }));
    expect(json.stdout()).toContain('Console         http');
    expect(json.stdout()).not.toContain('First sign-in');
    await json.end('SIGTERM');
  });

  it('stops all of its processes when the terminal closes', async () => {
    const { home, env } = await processes.homeWithAnyDatabase();
    const gateway = await onTerminal(home, start, { ...env, GATEWAY_TEMPORAL: '' });
    await eventually(async () =>
      expect(await jsonOf(fetch(`${gateway.url}/readyz`))).toEqual({ status: 'ready', reasons: [], degraded: [] }),
    );
    // At least the shell, the gateway and Temporal.
    expect((await processesOf(home)).length).toBeGreaterThan(2);
    expect(await gateway.end('SIGKILL')).toBe('SIGKILL');
    await eventually(async () => expect(await processesOf(home)).toEqual([]));
  });

  it('keeps running in the background under nohup', async () => {
    const { home, env } = await processes.homeWithAnyDatabase();
    const gateway = await onTerminal(home, `nohup ${start} > nohup.log 2>&1 & tail -F nohup.log`, env);
    await gateway.end('SIGKILL');
    await eventually(async () => expect(await readFile(join(home, 'nohup.log'), 'utf8')).toContain('"msg":"configuration reloaded"'));
    expect((await fetch(`${gateway.url}/readyz`)).status).toBe(200);
  });
});

/** Fills in the form behind a sign-in link. */
async function createAccount(link: string): Promise<void> {
  const page = await fetch(link);
  const text = await page.text();
  expect(text).toContain('Create the admin account');
  const field = (name: string) => new RegExp(`name="${name}" value="([^"]*)"`).exec(text)?.[1] ?? '';
  const form = { csrf: field('csrf'), token: field('token'), email: 'ann@example.com', name: 'Ann', password: 'correct horse battery' };
  const headers = { cookie: page.headers.getSetCookie()[0]?.split(';')[0] ?? '' };
  const used = await fetch(new URL('/console/sign-in/link', link), {
    method: 'POST',
    headers,
    body: new URLSearchParams(form),
    redirect: 'manual',
  });
  expect([used.status, used.headers.get('location')]).toEqual([303, '/console']);
}
