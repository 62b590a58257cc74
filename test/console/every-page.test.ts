/**
 * Every page that an admin reaches by links, as other people see it, and with hostile text in everything that is stored. New pages are covered as
 * soon as something links to them.
 */
import { beforeAll, describe, expect, test } from '@jest/globals';
import { sharedChromium } from '../support/chromium.ts';
import { expectAccessible, type SignedIn, signIn } from '../support/console.ts';
import { shareGateway, type TestGateway } from '../support/gateway.ts';
import { hostileText } from './frame/sample-pages.ts';

/** In every text of the project; no page of another project may contain it. */
const marker = 'planted-in-acme';
const hostile = `${marker}${hostileText}<svg onload="document.title='owned'"><a href="javascript:document.title='owned'">`;
const zone = 'Asia/Kolkata';

const gateway = shareGateway({});
const chromium = sharedChromium();

interface Site {
  readonly other: TestGateway;
  readonly admin: SignedIn;
  /** One URL of each kind: paths that differ only by ids count once. */
  readonly pages: readonly string[];
  /** Paths to which forms post. */
  readonly actions: readonly string[];
}

let site: Site;
beforeAll(async () => {
  const { withProject } = gateway();
  const other = await withProject('other');
  await seed(gateway());
  const admin = await signIn(gateway(), 'admin', hostile);
  site = { other, admin, ...(await crawl(admin)) };
}, 120_000);

describe('every page', () => {
  test('exists and is in the list that this test covers', () => {
    const areas = new Set(site.pages.map((page) => new URL(page, 'http://localhost').pathname.split('/').slice(0, 5).join('/')));
    for (const area of [
      'overview',
      'calls',
      'playground',
      'memory',
      'conversations',
      'keys',
      'routing',
      'members',
      'audit',
      'settings',
      'erase',
    ])
      expect([...areas]).toContain(`/console/p/acme/${area}`);
    expect(site.pages.length).toBeGreaterThan(30);
    expect(site.actions.length).toBeGreaterThan(8);
  });

  test('303 to the sign-in page without a session, also with a virtual key', async () => {
    for (const headers of [{}, { authorization: `Bearer ${gateway().key}` }]) {
      const statuses = await statusesOf(site.pages, (page) => fetch(gateway().url + page, { headers, redirect: 'manual' }));
      expect(statuses.filter(([page, status]) => status !== 303 && !page.startsWith('/console/sign-in') && page !== '/my-key')).toEqual([]);
    }
  });

  test.each(['a stranger', 'the owner of another project'])('404 for %s, also under the address of their project', async (kind) => {
    const person = await signIn(site.other, kind === 'a stranger' ? 'stranger' : 'owner');
    const inProject = site.pages.filter((page) => page.startsWith('/console/p/acme/'));
    const statuses = await statusesOf(inProject, person.get);
    expect(statuses.filter(([, status]) => status !== 404)).toEqual([]);
    // The name of an application is in the URL and shown again.
    for (const page of inProject.filter((path) => !path.includes(marker))) {
      const response = await person.get(page.replace('/p/acme/', '/p/other/'));
      expect([page, (await response.text()).includes(marker)]).toEqual([page, false]);
    }
  });

  test('404 for every action of a stranger, 303 without a session', async () => {
    const stranger = await signIn(site.other, 'stranger');
    const inProject = site.actions.filter((action) => action.startsWith('/console/p/acme/'));
    expect((await statusesOf(inProject, (action) => stranger.post(action))).filter(([, status]) => status !== 404)).toEqual([]);
    const anonymous = (action: string) => fetch(gateway().url + action, { method: 'POST', redirect: 'manual' });
    expect((await statusesOf(inProject, anonymous)).filter(([, status]) => status !== 303)).toEqual([]);
  });

  test('200, 403 on pages of owners or 404 on pages of the deployment, for a member', async () => {
    const member = await signIn(gateway(), 'member');
    const statuses = await statusesOf(site.pages, member.get);
    const expected = (page: string) => (page.startsWith('/console/admin/') ? [200, 404] : [200, 303, 403]);
    expect(statuses.filter(([page, status]) => !expected(page).includes(status))).toEqual([]);
  });

  test('in a browser: hostile text stays text, axe finds nothing serious, and a page weighs less than 150 kB', async () => {
    const context = await chromium().newContext({ viewport: { width: 1280, height: 900 } });
    await site.admin.useIn(context);
    // A page with another query has the same components.
    const html = site.pages.filter((path) => !path.includes('.csv') && (!path.includes('?') || path.includes(marker)));
    const problems: string[] = [];
    const visit = async (queue: string[]) => {
      const page = await context.newPage();
      let bytes = 0;
      page.on('console', (entry) => entry.type() === 'error' && problems.push(`${page.url()}: ${entry.text()}`));
      page.on('pageerror', (error) => problems.push(`${page.url()}: ${error.message}`));
      page.on('requestfinished', async (request) => {
        const sizes = await request.sizes().catch(() => null);
        bytes += sizes?.responseBodySize ?? 0;
      });
      for (let path = queue.shift(); path !== undefined; path = queue.shift()) {
        bytes = 0;
        await page.goto(gateway().url + path);
        await expectAccessible(page);
        if ((await page.title()) === 'owned') problems.push(`${path}: a stored text ran as a script`);
        if ((await page.locator('a[href^="javascript:"], main img, main [onload], main [onerror]').count()) > 0)
          problems.push(`${path}: stored markup`);
        if (bytes > 150_000) problems.push(`${path}: ${bytes} bytes`);
      }
    };
    const queue = [...html];
    await Promise.all([visit(queue), visit(queue)]);
    expect(problems).toEqual([]);
    await context.close();
  }, 120_000);
});

/** Hostile text in everything that the project stores. */
async function seed({ admin, call }: TestGateway): Promise<void> {
  const ok = async (response: Promise<Response>) => {
    const { status, url, ...rest } = await response;
    if (status >= 300) throw new Error(`${status} ${url} ${JSON.stringify(rest)}`);
  };
  await ok(admin('PUT', '/provision/teams/acme', { name: hostile, time_zone: zone }));
  await ok(admin('POST', '/provision/teams/acme/keys', { name: hostile, ceilings: { rpm: 100 } }));
  const subject = hostile.slice(0, 250);
  const headers = { 'x-gateway-source': `${marker}<b>`, 'x-gateway-memory-subject': subject, 'x-gateway-task-id': hostile };
  for (const model of ['one/echo', 'dead/echo', 'standard'])
    await call('/v1/chat/completions', { model, messages: [{ role: 'user', content: hostile }] }, headers);
  await ok(call('/v1/memory/items', { text: hostile, subject }));
}

/** Follows links from the start page until there are no more of another kind. */
async function crawl(person: SignedIn): Promise<{ pages: string[]; actions: string[] }> {
  const queue = ['/console/p/acme/overview', '/my-key'];
  const seen = new Set<string>();
  const pages: string[] = [];
  const actions = new Map<string, string>();
  for (let page = queue.shift(); page !== undefined; page = queue.shift()) {
    const kind = kindOf(page);
    if (seen.has(kind)) continue;
    seen.add(kind);
    const response = await person.get(page);
    if (response.status === 303) {
      queue.push(response.headers.get('location') ?? '');
      continue;
    }
    if (response.status !== 200) throw new Error(`${page}: ${response.status}`);
    pages.push(page);
    const text = await response.text();
    if (!response.headers.get('content-type')?.startsWith('text/html')) continue;
    for (const [, action = ''] of text.matchAll(/method="post" action="([^"]+)"/g)) actions.set(kindOf(action), decode(action));
    for (const [, href = ''] of text.matchAll(/<a [^>]*href="([^"]+)"/g)) {
      const { pathname, search } = new URL(decode(href), `http://localhost${page}`);
      if (pathname.startsWith('/console') || pathname === '/my-key')
        if (!pathname.startsWith('/console/p/other')) queue.push(pathname + search);
    }
  }
  return { pages, actions: [...actions.values()] };
}

/** The path with ids replaced, and the names of the query's parameters. */
function kindOf(page: string): string {
  const { pathname, searchParams } = new URL(page, 'http://localhost');
  const path = pathname
    .replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, ':id')
    .replace(/\/keys\/(?!new)[^/.]+/, '/keys/:id')
    .replace(/\/applications\/.+/, '/applications/:name');
  // The combinations of filters that pages link to are many, and differ in nothing that this test checks.
  return searchParams.size === 0 ? path : `${path}?`;
}

function decode(attribute: string): string {
  return attribute
    .replaceAll('&amp;', '&')
    .replaceAll('&#39;', "'")
    .replaceAll('&quot;', '"')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>');
}

async function statusesOf(paths: readonly string[], send: (path: string) => Promise<Response>): Promise<[string, number][]> {
  const statuses: [string, number][] = [];
  for (const path of paths) {
    const response = await send(path);
    await response.arrayBuffer();
    statuses.push([path, response.status]);
  }
  return statuses;
}
