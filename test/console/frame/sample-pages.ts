/** Sample pages that have every component and one action of each kind. */
import {
  actionButton,
  badge,
  barChart,
  card,
  checkboxField,
  codeBlock,
  confirmationForm,
  copyable,
  csvLink,
  definitions,
  filterForm,
  form,
  formatCount,
  formatDuration,
  formatUsd,
  lineChart,
  meter,
  notice,
  pager,
  ranking,
  requireConfirmation,
  section,
  selectField,
  stats,
  table,
  tabs,
  textArea,
  textField,
  time,
  usd,
  waterfall,
} from '../../../src/console/frame/components.ts';
import { html } from '../../../src/console/frame/html.ts';
import type { ConsoleContext, ConsoleRoute, PageContent } from '../../../src/console/frame/route.ts';
import { gatewayError } from '../../../src/core/errors.ts';

export const hostileText = '"><img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>\'`{1}';

const at = Date.UTC(2026, 10, 22, 14, 5, 9, 120);
const days = Array.from({ length: 14 }, (_, index) => `2026-11-${String(index + 9).padStart(2, '0')}`);

export const sampleRoutes: readonly ConsoleRoute[] = [
  { method: 'get', path: '/overview', access: 'member', handle: async (context) => overview(context) },
  { method: 'get', path: '/keys', access: 'member', handle: async (context) => keys(context) },
  { method: 'get', path: '/calls/:id', access: 'member', handle: async ({ params }) => text(`Call ${params.id}`) },
  {
    method: 'get',
    path: '/calls.csv',
    access: 'member',
    handle: async () => ({ kind: 'csv', fileName: 'calls.csv', header: ['name', 'cost'], rows: manyRows() }),
  },
  { method: 'get', path: '/erase', access: 'owner', handle: async () => text('Erase') },
  { method: 'get', path: '/admin/people', access: 'admin', handle: async () => text('People') },
  { method: 'get', path: '/failing', access: 'member', handle: () => Promise.reject(new Error('secret detail')) },
  { method: 'get', path: '/console/sign-in', access: 'anyone', handle: async (context) => signInPage(context) },
  {
    method: 'post',
    path: '/console/sign-in',
    access: 'anyone',
    action: null,
    handle: async () => ({ kind: 'redirect', to: '//elsewhere.example' }),
  },
  {
    method: 'post',
    path: '/keys',
    access: 'owner',
    action: 'key.issue',
    async handle(_context, fields) {
      const name = fields.get('name') ?? '';
      if (name === 'fail') throw new Error('secret detail');
      if (name === '') throw gatewayError('bad_request', { message: 'name: must not be empty' });
      return { kind: 'redirect', to: '/console/p/acme/keys', notice: `Issued ${name}`, audit: { name } };
    },
    invalidForm: async (context) => keys(context),
  },
  {
    method: 'post',
    path: '/keys/:id/revoke',
    access: 'member',
    action: 'key.revoke',
    async handle(_context, fields) {
      requireConfirmation(fields, 'acme');
      return { kind: 'page', page: await text('Revoked') };
    },
  },
];

async function* manyRows(): AsyncGenerator<readonly [string, number]> {
  for (let index = 0; index < 5_000; index += 1) yield [index === 0 ? '=1+1' : `row ${index}, of many`, -index];
}

function text(title: string): PageContent {
  return { kind: 'page', title, content: html`<p>${title}</p>` };
}

function signInPage(context: ConsoleContext): PageContent {
  const fields = [textField({ name: 'email', label: 'Email', type: 'email', required: true })];
  return { kind: 'page', title: 'Sign in', content: card(form({ context, action: '/console/sign-in', fields, submit: 'Sign in' })) };
}

function keys(context: ConsoleContext): PageContent {
  const fields = [
    textField({ name: 'name', label: 'Name', required: true, value: hostileText }),
    textField({ name: 'cap', label: 'Monthly cap', hint: 'Empty: no cap.', unit: 'USD', type: 'number', error: 'Must be at least 0.' }),
    selectField({ name: 'tier', label: 'Tier', options: ['standard', { value: 'high', label: hostileText, group: hostileText }] }),
    textArea({ name: 'note', label: 'Note', value: hostileText }),
    checkboxField({ name: 'memory', label: 'Memory', hint: 'Recalls memories.', checked: true }),
  ];
  const issue = form({ context, action: '/console/p/acme/keys', fields, submit: 'Issue key', cancelHref: '/console/p/acme/keys' });
  const revoke = confirmationForm({
    context,
    action: '/console/p/acme/keys/k1/revoke',
    confirmation: 'acme',
    text: 'Calls with this key fail at once.',
    submit: 'Revoke',
  });
  return { kind: 'page', title: 'Keys', content: html`${section('New key', card(issue))}${section('Revoke', revoke)}` };
}

function overview(context: ConsoleContext): PageContent {
  const { zone } = context;
  const models = ['gpt-5-mini', 'claude-sonnet-5', hostileText];
  const spend = days.map((day, index) => ({
    start: Date.parse(day),
    values: [index * 1.1e8, (index % 5) * 2e8, 3e7],
    href: `/console/p/acme/calls?day=${day}`,
  }));
  const latency = days.map((day, index) => ({
    start: Date.parse(day),
    values: index === 6 ? [null, null] : [400 + index * 20, 1900 - index * 30],
  }));
  const rows = days
    .slice(0, 4)
    .map((day, index) => ({ id: `0199-${index}`, day, model: models[index % 3] ?? '', cost: index * 1_234_567 }));
  const columns = [
    { label: 'Call', value: ({ id }: (typeof rows)[0]) => id },
    { label: 'Model', value: ({ model }: (typeof rows)[0]) => html`${model} ${badge('ok', 'good')}`, grow: true },
    { label: 'At', value: () => time(at, zone), wideOnly: true },
    { label: 'Cost', value: ({ cost }: (typeof rows)[0]) => usd(cost), align: 'end' as const },
    {
      label: 'Action',
      value: () => actionButton({ context, action: '/console/p/acme/keys/k1/revoke', label: 'Revoke', danger: true, about: 'key' }),
    },
  ];
  const content = html`${filterForm(context, [
    selectField({ name: 'range', label: 'Period', options: ['7 days', '30 days'] }),
    textField({ name: 'model', label: 'Model', suggestions: models }),
  ])}
${tabs('Metric', [
  { label: 'Spend', href: '?', current: true },
  { label: 'Calls', href: '?metric=calls', current: false },
])}
${stats([
  {
    label: 'Spend',
    value: usd(12_345_678_901),
    href: '/console/p/acme/calls',
    delta: { share: 0.12, good: null },
  },
  { label: 'Calls', value: formatCount(48_211), hint: 'last 14 days', delta: { share: 0.4, good: true } },
  { label: 'Errors', value: '0.4%', delta: { share: 0.02, good: false } },
  { label: 'p95 latency', value: formatDuration(1_840) },
])}
${section('Spend', card(barChart({ title: 'Spend by model', zone, unit: 'day', series: models.map((name) => ({ name })), buckets: spend, format: formatUsd })), { actions: csvLink(context) })}
<div class="columns">${section('Latency', card(lineChart({ title: 'Latency', zone, unit: 'day', series: [{ name: 'p50' }, { name: 'p95' }], buckets: latency, format: formatDuration })))}
${section(
  'Models',
  card(
    ranking(
      'Spend by model',
      models.map((label, index) => ({ label, costNanos: 3e9 - index * 1e9, href: '/console/p/acme/calls', detail: '2 calls' })),
      'No calls yet.',
    ),
  ),
)}</div>
${section('Calls', table({ caption: 'Latest calls', columns, rows, empty: 'No calls yet.', rowHref: ({ id }) => `/console/p/acme/calls/${id}` }))}${pager(context, '0199-3')}
${section(
  'Attempts',
  card(
    waterfall(
      'Attempts',
      [
        { label: 'one/echo', start: 0, end: 900, mark: 700, tone: 'bad', detail: '503', title: 'one/echo: failed after 900 ms' },
        { label: 'two/echo', start: 910, end: 2_400, mark: 1_300, tone: 'good', detail: 'ok', title: 'two/echo: 1.49 s' },
      ],
      2_400,
    ),
  ),
)}
${section('Ceilings', card([meter({ label: 'Calls', value: 82, max: 100, text: '82 of 100 calls today' })]))}
${section(
  'Key',
  card([
    definitions([
      ['Id', copyable('0199')],
      ['Text', hostileText],
    ]),
    codeBlock(hostileText, 'Example'),
  ]),
)}
${notice(hostileText, 'warning', 'Careful')}${table({ caption: 'Nothing here', columns, rows: [], empty: 'It appears with the first call.' })}`;
  return { kind: 'page', title: 'Overview', content, breadcrumbs: [{ label: 'acme', href: '/console/p/acme' }] };
}
