/**
 * Signs people in for console tests. You get their cookie, requests like those of a browser, and pages in a real
 * browser.
 */
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { expect } from '@jest/globals';
import axe from 'axe-core';
import type { BrowserContext, Page } from 'playwright-core';
import { csrfTokenOf } from '../../src/console/frame/same-site.ts';
import { newId } from '../../src/core/ids.ts';
import { systemClock } from '../../src/core/time.ts';
import { createMembers } from '../../src/people/members.ts';
import type { Role } from '../../src/people/person.ts';
import { createSessions } from '../../src/people/sessions.ts';
import type { TestGateway } from './gateway.ts';

/** A project's roles, a deployment admin, and a `stranger` who isn't a member of any project. */
export type TestRole = Role | 'admin' | 'stranger';

export interface SignedIn {
  readonly personId: string;
  readonly email: string;
  /** The value of the `cookie` header. */
  readonly cookie: string;
  /** Sends a GET request. Doesn't follow redirects. */
  get(path: string): Promise<Response>;
  /** Submits a form with its CSRF token. Doesn't follow redirects. */
  post(path: string, fields?: Readonly<Record<string, string>>): Promise<Response>;
  /** Signs a browser in. */
  useIn(context: BrowserContext): Promise<void>;
}

/** Creates a person with this role in the gateway's project, and a session for that person. */
export async function signIn(gateway: TestGateway, role: TestRole, name = `Test ${role}`): Promise<SignedIn> {
  const { database, url, project: slug } = gateway;
  const clock = systemClock;
  const personId = newId(clock.now());
  const email = `${role}-${personId}@example.com`;
  await database.query(
    `insert into people (id, email, name, is_admin, created_at) values ($1::uuid, $2::text, $3::text, $4::boolean, now())`,
    [personId, email, name, role === 'admin'],
  );
  if (role === 'owner' || role === 'member') {
    const project = await gateway.app.projects.findBySlug(slug);
    if (!project) throw new Error(`no project ${slug}`);
    await createMembers({ database, clock }).put(project.id, personId, role);
  }
  const { secret } = await createSessions({ database, clock }).start(personId, { userAgent: 'test' });
  const cookie = `gateway_session=${secret}`;
  return {
    personId,
    email,
    cookie,
    get: (path) => fetch(url + path, { headers: { cookie }, redirect: 'manual' }),
    async post(path, fields = {}) {
      const body = new URLSearchParams({ csrf: csrfTokenOf(secret), ...fields });
      return fetch(url + path, { method: 'POST', headers: { cookie, 'sec-fetch-site': 'same-origin' }, body, redirect: 'manual' });
    },
    useIn: (context) => context.addCookies([{ name: 'gateway_session', value: secret, url }]),
  };
}

const axeSource = fileURLToPath(import.meta.resolve('axe-core/axe.min.js'));

interface AxeRule {
  readonly id: string;
  readonly impact: 'minor' | 'moderate' | 'serious' | 'critical';
}

/** axe gives each rule a fixed rating. We ignore the rules that are never serious or critical. */
const mildRules = (axe as unknown as { _audit: { rules: readonly AxeRule[] } })._audit.rules
  .filter(({ impact }) => impact === 'minor' || impact === 'moderate')
  .map(({ id }) => id);

/**
 * Fails if axe finds serious or critical problems. `only` and `except` select rules. `elements` is JavaScript that
 * returns the elements to check. By default, the whole page is checked.
 */
export async function expectAccessible(
  page: Page,
  { only, except = [], elements }: { only?: readonly string[]; except?: readonly string[]; elements?: string } = {},
): Promise<void> {
  const rules = Object.fromEntries([...mildRules, ...except].map((rule) => [rule, { enabled: false }]));
  const options = { resultTypes: ['violations'], rules, ...(only && { runOnly: only }) };
  // We can't use `addScriptTag`, because the Content-Security-Policy forbids it.
  if (!(await page.evaluate<boolean>(`'axe' in window`))) await page.evaluate(await readFile(axeSource, 'utf8'));
  const problems = await page.evaluate<string[]>(`(async () => {
    const include = ${elements ?? '[document]'};
    if (include.length === 0) return [];
    const { violations } = await axe.run({ include }, ${JSON.stringify(options)});
    return violations
      .filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => id + ': ' + html + ' ' + failureSummary));
  })()`);
  expect(problems).toEqual([]);
}
