/**
 * Lists every page of the console with sample parameters, based on the registered routes. Also creates a project that
 * has a given text in every stored field.
 */
import { expect } from '@jest/globals';
import { ruleIdOf } from '../../src/guardrails/content-rule.ts';
import { type SignedIn, signIn } from './console.ts';
import { registeredRoutes } from './console-routes.ts';
import { jsonOf, type TestGateway } from './gateway.ts';
import { storeMemorySamples } from './memory-samples.ts';

/** What we put into paths in place of their parameters. */
export interface PageSamples {
  readonly slug: string;
  readonly subject: string;
  /** Ids by the first segment of the path. */
  readonly ids: Readonly<Record<string, string>>;
}

export interface PlantedProject extends PageSamples {
  readonly admin: SignedIn;
  /** The calls are in the same order as the texts. */
  readonly callIds: readonly string[];
}

/**
 * Stores each text in every field that accepts it. The texts can't contain line breaks, and the first one can have at
 * most 100 characters.
 */
export async function plantProject(gateway: TestGateway, texts: readonly string[]): Promise<PlantedProject> {
  const { project: slug, database, app, key } = gateway;
  const [mark = ''] = texts;
  const projectId = (await app.projects.findBySlug(slug))?.id ?? '';
  const admin = await signIn(gateway, 'admin', mark);
  const base = `/console/p/${slug}`;
  const subject = `ann ${mark}`;
  const samples = await storeMemorySamples(database, { projectId, subject, mark, author: `person:${admin.personId}` });

  const team = `/provision/teams/${slug}`;
  const put = async (path: string, body: unknown): Promise<void> => {
    const response = await gateway.admin('PUT', path, body);
    expect([path, response.ok ? '' : await response.text()]).toEqual([path, '']);
  };
  const modelOf = (text: string): string => `one/${text.replaceAll(/\s/gu, '/').slice(0, 200)}`;
  await put(team, { name: mark, tiers: { standard: ['one/echo'], many: texts.map(modelOf) }, retired: texts.map(modelOf) });
  await put(`${team}/rules`, {
    rules: texts.map((text) => ({ class: 'expression', place: 'input', action: 'observe', expression: toExpression(text) })),
  });
  await put(`${team}/memory`, { only_senders: [] });
  const post = async (path: string, fields: Record<string, string>): Promise<string> => {
    const response = await admin.post(base + path, fields);
    const refusal = /class="notice bad".*?<\/div>/s.exec(await response.text())?.[0] ?? '';
    // Only memory may refuse a text, because it doesn't accept hidden characters.
    expect([path, refusal.includes('hidden_characters') ? '' : refusal]).toEqual([path, '']);
    return response.headers.get('location')?.split('/').at(-1) ?? '';
  };
  const plant = async (text: string, index: number): Promise<void> => {
    const name = text.slice(0, 200);
    // The field is a list, so a comma would start another name. Each name has to be a tier or a model, or have a
    // provider.
    await post('/keys', { name, models: modelOf(text).replaceAll(',', ';') });
    await post('/members', { email: `person${index}@${slug}.example.com`, name, role: 'member' });
    await post('/applications/new', { application: name, 'ceilings.calls': '1000', 'windows.calls': 'month', 'windows.cost': 'month' });
    await post('/memory', { text: text.slice(0, 4_000), kind: 'fact', importance: '3', subject: name });
  };
  await Promise.all(texts.map(plant));
  expect((await admin.post('/console/account/tokens', { name: mark, days: '30', scopes: 'usage:read' })).status).toBeLessThan(500);
  const callIds = await Promise.all(texts.map((text) => call(gateway, text, modelOf(text))));
  const [refused = ''] = await Promise.all(texts.map((text) => call(gateway, text, `unknown/${text.slice(0, 200)}`)));
  // The calls are stored when this request returns.
  await gateway.admin('GET', `${team}/calls`);
  const { id: erasure } = await jsonOf<{ id: string }>(
    fetch(`${gateway.url}/v1/memory/subjects/forgotten`, { method: 'DELETE', headers: { authorization: `Bearer ${key}` } }),
  );
  const ids = {
    ...{
      calls: callIds[0] ?? '',
      refused,
      memory: samples.learnedId,
      conversations: samples.conversationId,
      batches: samples.failedBatchId,
    },
    rules: ruleIdOf({ class: 'expression', place: 'input', action: 'observe', expression: toExpression(mark) }),
    ...{ erase: erasure, keys: key.split('-')[2] ?? '', people: admin.personId, 'end-users': encodeURIComponent(subject) },
  };
  return { admin, slug, subject, ids, callIds };
}

/** Sends a chat call that has the text in its message, end user, application and correlation headers. */
async function call(gateway: TestGateway, text: string, model: string): Promise<string> {
  const header = encodeHeader(text);
  const body = { model, user: text.slice(0, 200), messages: [{ role: 'user', content: `Said ${text}` }] };
  const response = await gateway.call('/v1/chat/completions', body, {
    ...{ 'x-gateway-source': header, 'x-gateway-task-id': header, 'x-gateway-turn-id': header, 'x-gateway-agent-id': header },
  });
  await response.arrayBuffer();
  return response.headers.get('x-gateway-call-id') ?? '';
}

/** Encodes up to 200 bytes of UTF-8 for a header. */
function encodeHeader(text: string): string {
  return Buffer.from(text.slice(0, 60)).toString('latin1');
}

function toExpression(text: string): string {
  return text.slice(0, 80).replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&');
}

/** Some routes are no pages. They're downloads, fragments that htmx polls, and redirects to an identity provider. */
const notPages = /\.csv$|\/calls\/live$|\/find\/results$|\/text$|\/receipt$|\/sign-in\/oidc/;

/** Returns queries for pages that need one or that have several views. */
function queriesOf(path: string, { subject, ids }: PageSamples): readonly string[] {
  const named = (parameters: Record<string, string>): string => `?${new URLSearchParams(parameters)}`;
  const queries: Readonly<Record<string, readonly string[]>> = {
    '/calls/:id': ['', '?text=1'],
    '/find': ['', '?q=one', '?q=nothing-has-this-name', named({ q: subject })],
    '/explore': ['', '?metric=calls&group=source'],
    '/conversations/:id': ['', '?view=text', '?view=memories', '?view=calls'],
    '/memory': ['', '?q=tea', '?state=left_out'],
    '/memory/recall': ['', '?q=tea'],
    '/pages': ['', named({ subject })],
    '/end-users': ['', named({ q: subject.slice(0, 3) }), '?q=nobody'],
    '/graph': ['', '?view=picture', named({ view: 'picture', entity: subject.replace('ann', 'Ann') })],
    '/erase': ['', named({ subject })],
    '/applications/application': [named({ name: subject.replace('ann ', '') })],
    '/routing/dry-run': ['', '?route=chat&model=standard&bytes=400'],
    '/admin/prices/model': ['?id=one%2Fecho'],
    '/playground': ['', named({ model: 'one/echo', prompt: subject, system: subject }), named({ from: ids.calls ?? '' })],
  };
  return queries[path] ?? [''];
}

/**
 * Returns the paths of all pages, i.e. pages of the project and the deployment, pages for visitors without a session,
 * and error pages.
 */
export function pagesOf(planted: PageSamples): readonly string[] {
  const pages = registeredRoutes.filter(({ method, path }) => method === 'get' && !notPages.test(path));
  const paths = pages.flatMap(({ path, access }) => {
    const base = access === 'anyone' ? '' : access === 'member' || access === 'owner' ? `/console/p/${planted.slug}` : '/console';
    const filled = path.replaceAll(/([\w-]+)\/:\w+/g, (_, segment: string) => {
      const id = planted.ids[segment];
      if (id === undefined) throw new Error(`no sample for ${path}`);
      return `${segment}/${id}`;
    });
    return queriesOf(path, planted).map((query) => base + filled + query);
  });
  return [
    ...paths,
    ...(planted.ids.refused === undefined ? [] : [`/console/p/${planted.slug}/calls/${planted.ids.refused}`]),
    `/console/p/${planted.slug}/unknown`,
    `/console/p/${planted.slug}/calls?range=nonsense`,
  ];
}
