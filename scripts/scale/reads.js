/**
 * Lists all reads of the API and the console. We take the routes from the checkout that we measure, and fail if there's
 * one for which we have no request. The commands of the CLI send the same requests, so they aren't listed separately.
 */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** @typedef {{ title: string, method?: string, path: string, auth: 'key' | 'admin' | 'session' | 'none', body?: object, headers?: Record<string, string> }} Read */
/**
 * @typedef {{ project: string, key: string, smallKey: string, email: string, callId: string, itemId: string, conversationId: string, batchId: string, erasureId: string, prefix: string, personId: string, query: string, smallQuery: string, subject: string }} Sample ids and names of existing rows
 */

/** @param {string} checkout @param {Sample} sample @returns {Promise<Read[]>} */
export async function listReads(checkout, sample) {
  return [
    ...(await apiReads(checkout, sample)),
    ...filteredReads(sample),
    ...memoryReads(sample),
    ...(await consoleReads(checkout, sample)),
  ];
}

/** @param {string} checkout @param {Sample} sample @returns {Promise<Read[]>} */
async function apiReads(checkout, sample) {
  const { paths } = JSON.parse(await readFile(join(checkout, 'docs/api/openapi.json'), 'utf8'));
  const ids = [
    [/^\/v1\/models\/\{id\}$/, 'scale%2Flarge'],
    [/episodes\/\{id\}$/, sample.conversationId],
    [/erasures\/\{id\}$/, sample.erasureId],
    [/batches\/\{id\}$/, sample.batchId],
    [/\/calls\/\{id\}$/, sample.callId],
    // The seeded data has no refused calls, so look up an id that doesn't exist. The query reads just as much.
    [/refused-calls\/\{id\}$/, sample.callId],
  ];
  return Object.entries(paths).flatMap(([template, operations]) => {
    if (!('get' in operations)) return [];
    const path = template
      .replace('{project}', sample.project)
      .replace('{source}', 'app-0')
      .replace('{subject}', sample.subject)
      .replace('{email}', encodeURIComponent(sample.email))
      .replace('{id}', () => String(ids.find(([pattern]) => pattern instanceof RegExp && pattern.test(template))?.[1] ?? '{id}'));
    if (path.includes('{')) throw new Error(`scripts/scale/reads.js has no value for ${template}`);
    const auth = /^\/(v1|status|usage)/.test(path) ? 'key' : path.startsWith('/provision') ? 'admin' : 'none';
    return [{ title: `GET ${template}`, path, auth }];
  });
}

/**
 * Returns a request for each of the filters of the command `gateway calls`.
 * @param {Sample} sample
 * @returns {Read[]}
 */
function filteredReads({ project, callId }) {
  const calls = `/provision/teams/${project}/calls`;
  const queries = [
    'limit=1000',
    'task_id=task-0',
    'task_id=rare-task-7',
    'task_id=unknown',
    'source=app-0',
    'source=app-rare',
    'source=unknown',
    `before=${callId}`,
  ];
  return queries.map((query) => ({ title: `GET calls?${query.replace(callId, '…')}`, path: `${calls}?${query}`, auth: 'admin' }));
}

/** @param {Sample} sample @returns {Read[]} */
function memoryReads({ query, smallQuery, smallKey, subject }) {
  const search = '/v1/memory/search';
  const small = { authorization: `Bearer ${smallKey}` };
  const chat = { model: 'scale/mini', messages: [{ role: 'user', content: query }] };
  return [
    { title: 'search, large project', method: 'POST', path: search, auth: 'key', body: { query } },
    { title: 'search of a subject, large project', method: 'POST', path: search, auth: 'key', body: { query, subject } },
    {
      title: 'search by kind, large project',
      method: 'POST',
      path: search,
      auth: 'key',
      body: { query, kinds: ['procedure'], include: ['memories'] },
    },
    { title: 'search, small project', method: 'POST', path: search, auth: 'key', body: { query: smallQuery }, headers: small },
    { title: 'wake-up', method: 'POST', path: '/v1/memory/wake-up', auth: 'key', body: {} },
    { title: 'wake-up of a subject', method: 'POST', path: '/v1/memory/wake-up', auth: 'key', body: { subject } },
    { title: 'wake-up of an unknown subject', method: 'POST', path: '/v1/memory/wake-up', auth: 'key', body: { subject: 'nobody' } },
    { title: 'graph', method: 'POST', path: '/v1/memory/graph', auth: 'key', body: {} },
    { title: 'graph of an entity', method: 'POST', path: '/v1/memory/graph', auth: 'key', body: { entity: 'Entity 7' } },
    { title: 'graph by terms', method: 'POST', path: '/v1/memory/graph', auth: 'key', body: { query: 'entity 7' } },
    {
      title: 'graph of a relation and a subject',
      method: 'POST',
      path: '/v1/memory/graph',
      auth: 'key',
      body: { relation: 'works_with', subject },
    },
    { title: 'call', method: 'POST', path: '/v1/chat/completions', auth: 'key', body: chat, headers: { 'x-gateway-memory': 'off' } },
    {
      title: 'call with recall',
      method: 'POST',
      path: '/v1/chat/completions',
      auth: 'key',
      body: chat,
      headers: { 'x-gateway-memory': 'recall' },
    },
  ];
}

/** @param {string} checkout @param {Sample} sample @returns {Promise<Read[]>} */
async function consoleReads(checkout, sample) {
  const { registeredRoutes } = await import(pathToFileURL(join(checkout, 'test/support/console-routes.ts')).href);
  /** @type {Record<string, string>} */
  const ids = {
    calls: sample.callId,
    memory: sample.itemId,
    conversations: sample.conversationId,
    batches: sample.batchId,
    erase: sample.erasureId,
  };
  /** @type {Record<string, string>} */
  const queries = {
    '/applications/application': '?name=app-0',
    '/admin/prices/model': '?id=scale/large',
    '/admin/prices/model.csv': '?id=scale/large',
  };
  /** @type {readonly { method: string, path: string, access: string }[]} */
  const pages = registeredRoutes.filter((/** @type {{ method: string }} */ { method }) => method === 'get');
  const base = {
    member: `/console/p/${sample.project}`,
    owner: `/console/p/${sample.project}`,
    person: '/console',
    admin: '/console',
    anyone: '',
  };
  const plain = pages.map(({ path, access }) => {
    const filled = path
      .replace(':id', () => ids[path.split('/')[1] ?? ''] ?? ':id')
      .replace(':prefix', sample.prefix)
      .replace(':person', sample.personId)
      .replace(':subject', sample.subject)
      // The seeded projects have no content rules, so use a name that doesn't exist.
      .replace(':rule', 'none');
    return {
      title: `console ${path === '' ? '/' : path}`,
      path: `${base[/** @type {keyof typeof base} */ (access)]}${filled}${queries[path] ?? ''}`,
      auth: /** @type {const} */ ('session'),
    };
  });
  const missing = plain.find(({ path }) => /:\w/.test(path) && !/sign-in|link|start|code/.test(path));
  if (missing) throw new Error(`scripts/scale/reads.js has no value for ${missing.path}`);
  const views = [
    ...['1h', '24h', '7d', '30d', 'month'].flatMap((range) => [`/overview?range=${range}`, `/explore?range=${range}`]),
    ...['source', 'task', 'key', 'status', 'provider', 'outcome'].map((group) => `/explore?range=30d&group=${group}`),
    ...['latency_p95', 'failovers', 'first_chunk_p50', 'error_share'].map((metric) => `/explore?range=30d&metric=${metric}`),
    ...[
      'source=app-rare',
      'model=scale/mini',
      'task=rare-task-7',
      'key=scal0001',
      'result=error',
      'code=rate_limited',
      'agent=agent-3',
      'failover=yes',
      'task=unknown',
    ].flatMap((filter) => [`/calls?range=30d&${filter}`, `/explore?range=30d&${filter}`]),
    ...['subject=user-7', 'source=app-rare', 'state=stored', 'subject=nobody'].map((filter) => `/conversations?${filter}`),
    ...['subject=user-7', 'kind=procedure', 'origin=person', 'state=closed', 'state=left_out', 'pinned=yes'].map(
      (filter) => `/memory?${filter}`,
    ),
    `/erase?subject=user-7`,
    ...['q=user-4', 'q=user-7', 'before=user-25000', 'q=nobody', `sha256=${createHash('sha256').update('user-7').digest('hex')}`].map(
      (query) => `/end-users?${query}`,
    ),
    '/find?q=user-4',
  ];
  return [
    ...plain,
    ...views.map((view) => ({ title: `console ${view}`, path: `${base.owner}${view}`, auth: /** @type {const} */ ('session') })),
  ];
}
