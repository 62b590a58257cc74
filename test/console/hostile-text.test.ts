/**
 * Puts hostile text into every stored field and into the parameters of every page. In Chromium, none of this text runs
 * as a script, and no page scrolls sideways on a phone.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { filterLabels } from '../../src/console/frame/call-filters.ts';
import { filterNames } from '../../src/usage/analytics/call-filter.ts';
import { sharedChromium } from '../support/chromium.ts';
import { type PlantedProject, pagesOf, plantProject } from '../support/console-pages.ts';
import { defaultYaml, shareGateway } from '../support/gateway.ts';

/** Each of these sets `window.ran` if it is not escaped. */
const scripts: readonly string[] = [
  `</textarea><img src=x onerror=ran=1>"'<script>ran=1</script>`,
  '<script>ran=1</script>',
  '<ScRiPt >ran=1</sCrIpT >',
  '</script><script>ran=1</script>',
  '</title><script>ran=1</script>',
  '</style><script>ran=1</script>',
  '</template></noscript></select></option><img src=x onerror=ran=1>',
  '<img src=x onerror=ran=1>',
  '<img/src/onerror=ran=1>',
  '" autofocus onfocus=ran=1 x="',
  "' autofocus onfocus=ran=1 x='",
  '"><svg onload=ran=1>',
  `'><details open ontoggle=ran=1>`,
  '" onmouseover="ran=1" style="position:fixed;inset:0',
  '<svg><animate onbegin=ran=1 attributeName=x dur=1s>',
  '<svg><script>ran=1</script></svg>',
  '<svg/onload=ran=1>',
  '<math><mtext><mglyph><style><img src=x onerror=ran=1></style></mglyph></mtext></math>',
  '<iframe srcdoc="<script>parent.ran=1</script>"></iframe>',
  '<iframe src="javascript:parent.ran=1"></iframe>',
  'javascript:ran=1',
  'JaVaScRiPt:ran=1//',
  'data:text/html,<script>opener.ran=1</script>',
  '<a href="javascript:ran=1" autofocus onfocus=ran=1>x</a>',
  '<object data="javascript:ran=1"></object>',
  '<meta http-equiv="refresh" content="0;url=javascript:ran=1">',
  '<base href="https://example.org/">',
  '<form action="https://example.org/"><button hx-get="/x" hx-trigger="load" hx-on::load="ran=1">x</button></form>',
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a placeholder of templates, as text.
  '${ran=1}{{constructor.constructor("ran=1")()}}<%= ran=1 %>',
  '&lt;script&gt;ran=1&lt;/script&gt;&#60;script&#62;ran=1',
  '\\u003cscript\\u003eran=1\\u003c/script\\u003e',
  '=HYPERLINK("javascript:ran=1")',
  '<!--<img src="--><img src=x onerror=ran=1//">',
  ']]><script>ran=1</script>',
];
const shapes: readonly string[] = [
  `${'W'.repeat(190)}`,
  'https://example.org/'.padEnd(190, 'path/without/spaces'),
  '\u202Eright to left override\u202C',
  '\u0645\u0631\u062D\u0628\u0627 \u05E9\u05DC\u05D5\u05DD'.repeat(8),
  `zero\u200Bwidth\u200D\uFEFF${'\u200B'.repeat(50)}`,
  `Z\u0351\u036B\u0343\u036A\u0302\u036B${'\u0300'.repeat(60)}`,
  '\u{1F469}\u200D\u{1F469}\u200D\u{1F467}\u200D\u{1F466}'.repeat(10),
];
const corpus = [...scripts, ...shapes];

const priced = 'one/<img/src/onerror=ran=1>"x';
const yaml = (vendorUrl: string, deadUrl: string): string =>
  defaultYaml(vendorUrl, deadUrl).replace('models:\n', `models:\n  ${JSON.stringify(priced)}: { input: 1, output: 1 }\n`);
const gateway = shareGateway({ database: 'any', yaml });
const chromium = sharedChromium();
let planted: PlantedProject;

beforeAll(async () => {
  planted = await plantProject(gateway(), corpus);
});

/** The names of all parameters and fields that the sources of the console read, and of the filters of calls. */
const parameters = ((): readonly string[] => {
  const folder = new URL('../../src/console/', import.meta.url);
  const sources = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
  const read = sources.flatMap((name) =>
    [...readFileSync(new URL(name, folder), 'utf8').matchAll(/\b(?:get|getAll|has|text|number)\('([a-z_]+)'\)/g)].map(
      ([, parameter = '']) => parameter,
    ),
  );
  return [...new Set([...read, ...filterNames, 'before', 'range', 'from', 'to'])];
})();

/** Returns the path with a hostile text in every parameter, a different one for each page. */
function withHostileQuery(path: string, index: number): string {
  const value = scripts[index % scripts.length]?.slice(0, 64) ?? '';
  return `${path}?${new URLSearchParams(Object.fromEntries(parameters.map((name) => [name, value])))}`;
}

/**
 * Leaves out the parameters that the page rejects, because it shows none of the others then. Returns null if nothing is
 * left to leave out. Calls `onRejected` with the path and the content of each error page.
 */
async function withoutRejected(path: string, onRejected: (path: string, content: string) => void): Promise<string | null> {
  const url = new URL(path, 'http://host');
  for (;;) {
    const response = await planted.admin.get(url.pathname + url.search);
    const text = await response.text();
    if (response.status !== 400 && response.status !== 404) return url.pathname + url.search;
    onRejected(url.pathname + url.search, text.slice(text.indexOf('<main')));
    const [, label = ''] = /<p>([^<:]+): /.exec(text) ?? [];
    const filter = Object.entries(filterLabels).find(([, filterLabel]) => filterLabel === label)?.[0];
    const rejected = [filter, label.toLowerCase(), 'from', 'id', 'before'].find((name) => name !== undefined && url.searchParams.has(name));
    if (rejected === undefined) return null;
    url.searchParams.delete(rejected);
  }
}

/** Finds elements that only hostile text can have added to a page. */
const findForeign = `[...document.querySelectorAll('*')].filter((element) =>
  ['IFRAME', 'OBJECT', 'EMBED', 'BASE', 'STYLE', 'MATH'].includes(element.tagName.toUpperCase())
  || (element.matches('script, img') && !element.getAttribute('src')?.startsWith('/console/assets/'))
  || [...element.attributes].some(({ name, value }) => name.startsWith('on') || /^\\s*(javascript|data):/i.test(value) && /^(href|src|action|formaction|xlink:href)$/.test(name))
).map((element) => element.outerHTML.slice(0, 200))`;

/** Finds elements that are wider than the page and not inside something that scrolls. */
const findWide = `[...document.querySelectorAll('main *, header *')].filter((element) => element.getBoundingClientRect().right > innerWidth + 1
  && !element.closest('svg, .hidden, details:not([open]) > :not(summary)')).map((element) => element.outerHTML.slice(0, 150)).slice(0, 5)`;

/**
 * Opens the pages without the Content-Security-Policy. Returns a line for each sign that hostile text
 * was executed, and for each page with an unexpected status.
 */
async function findProblems(
  paths: readonly string[],
  isExpectedStatus: (status: number, path: string) => boolean,
): Promise<readonly string[]> {
  const context = await chromium().newContext({ viewport: { width: 390, height: 844 }, bypassCSP: true });
  await planted.admin.useIn(context);
  const page = await context.newPage();
  const found: string[] = [];
  page.on('dialog', (dialog) => found.push(`${page.url().slice(0, 200)}: dialog ${dialog.message()}`));
  page.on(
    'request',
    (request) => !request.url().startsWith(gateway().url) && found.push(`${page.url().slice(0, 200)}: request ${request.url()}`),
  );
  page.on('pageerror', (error) => found.push(`${page.url().slice(0, 200)}: ${error.message}`));
  for (const path of paths) {
    const status = (await page.goto(gateway().url + path))?.status() ?? 500;
    const state = await page.evaluate<{ ran: unknown; foreign: string[]; sideways: number; path: string }>(
      `({ ran: window.ran ?? null, foreign: ${findForeign}, sideways: document.documentElement.scrollWidth - innerWidth, wide: ${findWide} })`,
    );
    if (!isExpectedStatus(status, path) || state.ran !== null || state.foreign.length > 0 || state.sideways > 0)
      found.push(`${path.slice(0, 120)}: ${status} ${JSON.stringify(state)}`);
  }
  await context.close();
  return found;
}

describe('injected scripts without the Content-Security-Policy', () => {
  test("doesn't run scripts injected into stored text on any console page", async () => {
    const paths = pagesOf(planted);
    const mayFail = (path: string): boolean => paths.indexOf(path) >= paths.length - 2 || path.startsWith('/console/sign-in');
    expect(await findProblems(paths, (status, path) => status === 200 || (mayFail(path) && status < 500))).toEqual([]);
  });

  test("doesn't run scripts injected into the prompt or response of a call", async () => {
    const details = planted.callIds.slice(0, 6).map((id) => `/console/p/${planted.slug}/calls/${id}?text=1`);
    expect(await findProblems(details, (status) => status < 500)).toEqual([]);
  });

  test("doesn't run scripts injected into query parameters", async () => {
    expect(parameters.length).toBeGreaterThan(80);
    const distinct = [...new Set(pagesOf(planted).map((path) => path.split('?')[0] ?? ''))];
    // Many error pages have the same content, so we open only one of them.
    const rejected = new Map<string, string>();
    const onRejected = (path: string, content: string): void => void rejected.set(content, path);
    const opened = distinct.map((path, index) => withoutRejected(withHostileQuery(path, index), onRejected));
    const accepted = (await Promise.all(opened)).filter((path) => path !== null);
    expect(accepted.length).toBeGreaterThan(distinct.length / 2);
    expect(rejected.size).toBeGreaterThan(0);
    expect(await findProblems([...accepted, ...rejected.values()], (status) => status < 500)).toEqual([]);
  });
});
