import type { ReadCounters } from '../../ceilings/counter-usage.ts';
import type { CeilingName } from '../../core/windows.ts';
import type { Queries } from '../../db/database.ts';
import type { KeyRecord } from '../../keys/key-record.ts';
import type { Keyring } from '../../keys/keyring.ts';
import type { Analytics } from '../../usage/analytics/analytics.ts';
import type { KeyUse } from '../../usage/analytics/key-use.ts';
import { parseRange } from '../../usage/analytics/range.ts';
import { type LastError, lastCalls, lastErrors } from '../../usage/last-calls.ts';
import { type CeilingUse, ceilingMeters, countersOf, describeCeiling, toUses } from '../frame/ceilings.ts';
import {
  ago,
  allPages,
  badge,
  copyable,
  csvFile,
  csvLink,
  cutPage,
  emptyState,
  exactUsd,
  pageParameter,
  pager,
  parsePageId,
  table,
  tabs,
  time,
  usd,
  withQuery,
} from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, PageResult } from '../frame/route.ts';

export interface KeyListDeps {
  readonly keyring: Pick<Keyring, 'list'>;
  readonly queries: Queries;
  readonly analytics: Pick<Analytics, 'keyUse'>;
  readonly readCounters: ReadCounters;
  readonly readStored: <Result>(query: () => Promise<Result>, projectId: string) => Promise<Result>;
}

export interface UsedKey {
  readonly record: KeyRecord;
  readonly uses: readonly CeilingUse[];
  readonly lastUsedAt: number | null;
  readonly lastError: LastError | null;
  /** What the key has spent in the last 30 days. */
  readonly recent: KeyUse;
}

const pageSize = 50;
const recentDays = 30;
const recentRange = `${recentDays}d`;
const noUse: KeyUse = { calls: 0, errors: 0, costNanos: 0n };

export async function showKeys(deps: KeyListDeps, context: ConsoleContext): Promise<PageResult> {
  const page = await readKeys(deps, context, parsePageId(context), pageSize + 1);
  const { shown: keys, next } = cutPage(page, pageSize, ({ record }) => record.id);
  const isAll = showsAll(context);
  const path = projectPath(context, '/keys');
  const isOwner = context.role === 'owner';
  const newKey = isOwner ? html`<a class="button primary" href="${path}/new">New key</a>` : undefined;
  const view = tabs('State of keys', [
    { label: 'Active', href: withQuery(context, { show: null, [pageParameter]: null }), current: !isAll },
    { label: 'All', href: withQuery(context, { show: 'all', [pageParameter]: null }), current: isAll },
  ]);
  return {
    kind: 'page',
    title: 'Keys',
    actions: html`${csvLink(context)}${newKey}`,
    content: html`${view}${
      keys.length === 0
        ? emptyState(
            isAll ? 'No keys yet' : 'No active keys',
            'An application sends a virtual key with each call. Its ceilings limit what the application may spend.',
            newKey,
          )
        : keyTable(keys, context)
    }${pager(context, next)}`,
  };
}

function keyTable(keys: readonly UsedKey[], context: ConsoleContext): Html {
  const { now, zone } = context;
  return table<UsedKey>({
    caption: 'Keys',
    rows: keys,
    rowHref: ({ record }) => projectPath(context, `/keys/${record.prefix}`),
    columns: [
      {
        label: 'Name',
        value: ({ record }) => html`${record.name}<br><code class="nowrap muted">sk-gw-${record.prefix}</code>`,
      },
      ...(showsAll(context) ? [{ label: 'State', value: ({ record }: UsedKey) => stateBadge(record, now) }] : []),
      { label: 'Models', value: ({ record }) => describeModels(record.models), wideOnly: true },
      { label: 'Ceilings (UTC)', value: keyCeilings },
      { label: `Spend, ${recentDays} days`, align: 'end', value: (key) => spendLink(context, key) },
      { label: 'Last used', value: ({ lastUsedAt }) => ago(lastUsedAt, now, zone) },
      { label: 'Last error', value: (key) => lastErrorLink(context, key) },
      {
        label: 'Expires',
        value: ({ record }) => (record.expiresAt === null ? html`<span class="muted">Never</span>` : time(record.expiresAt, zone, 'date')),
        wideOnly: true,
      },
    ],
  });
}

export function spendLink(context: ConsoleContext, { record, recent }: UsedKey): Html {
  if (recent.calls === 0) return html`<span class="muted">No calls</span>`;
  const href = projectPath(context, '/calls', { key: record.prefix, range: recentRange });
  return html`<a href="${href}">${usd(recent.costNanos)}</a>`;
}

export function lastErrorLink(context: ConsoleContext, { lastError }: UsedKey): Html {
  if (lastError === null) return html`<span class="muted">None</span>`;
  const { callId, at, status, code } = lastError;
  return html`<a href="${projectPath(context, `/calls/${callId}`)}">${code === null ? status : html`<code>${code}</code>`}</a><br><span class="muted nowrap">${ago(at, context.now, context.zone)}</span>`;
}

/**
 * Shows the usage of ceilings per day, per month and in total. Ceilings per minute only show the limit, because their
 * usage changes too fast for a list.
 */
function keyCeilings({ record: { ceilings }, uses }: UsedKey): Html {
  const rates = (['rpm', 'tpm'] as const).flatMap((name) => describeCeiling(name, ceilings[name]) ?? []);
  const longer = uses.filter(({ window }) => window !== 'minute');
  return html`${longer.length === 0 && rates.length > 0 ? '' : ceilingMeters(longer)}${rates.map((rate) => html`<div>${rate}</div>`)}`;
}

export function stateOf({ revokedAt, expiresAt }: KeyRecord, now: number): 'active' | 'expired' | 'revoked' {
  if (revokedAt !== null) return 'revoked';
  return expiresAt !== null && expiresAt <= now ? 'expired' : 'active';
}

export function stateBadge(record: KeyRecord, now: number): Html {
  const state = stateOf(record, now);
  return badge(state, state === 'active' ? 'good' : state === 'revoked' ? 'bad' : 'neutral');
}

const shownModels = 2;

function describeModels(models: readonly string[] | null): Html | string {
  if (models === null) return html`<span class="muted">All</span>`;
  if (models.length === 0) return html`<span class="muted">None</span>`;
  const more = models.length - shownModels;
  return html`${models.slice(0, shownModels).map((model, index) => html`${index === 0 ? '' : ', '}<code>${model}</code>`)}${more > 0 ? ` and ${more} more` : ''}`;
}

export function prefixOf({ prefix }: KeyRecord): Html {
  return copyable(`sk-gw-${prefix}`);
}

function showsAll({ url }: ConsoleContext): boolean {
  return url.searchParams.get('show') === 'all';
}

async function readKeys(deps: KeyListDeps, context: ConsoleContext, before: string | null, limit: number): Promise<UsedKey[]> {
  const { project, now } = context;
  const records = await deps.keyring.list(project.id, { before, limit, usableAt: showsAll(context) ? null : now });
  return withUse(deps, context, records);
}

/** Adds ceiling usage and spend to each key. A rotated key and its successor share ceilings, but not spend. */
export async function withUse(
  { queries, analytics, readCounters, readStored }: KeyListDeps,
  context: ConsoleContext,
  records: readonly KeyRecord[],
): Promise<UsedKey[]> {
  const { project, now, zone } = context;
  const holder = { projectId: project.id, scope: 'key' } as const;
  const counters = records.map(({ quotaKeyId, ceilings }) => countersOf({ ...holder, scopeId: quotaKeyId }, ceilings, now));
  const keyIds = records.map(({ id }) => id);
  const { from, to } = parseRange(new URLSearchParams({ range: recentRange }), { zone, now });
  const keys = counters.flat().map(({ key }) => key);
  const [counted, lastUsed, errors, recent] = await readStored(
    () =>
      Promise.all([
        readCounters(project.id, keys),
        lastCalls(queries, keyIds),
        lastErrors(queries, keyIds),
        analytics.keyUse(project.id, { from, to, keyIds }),
      ]),
    project.id,
  );
  return records.map((record, index) => ({
    record,
    uses: toUses(counters[index] ?? [], counted),
    lastUsedAt: lastUsed.get(record.id) ?? null,
    lastError: errors.get(record.id) ?? null,
    recent: recent.get(record.id) ?? noUse,
  }));
}

export async function exportKeys(deps: KeyListDeps, context: ConsoleContext): Promise<PageResult> {
  const ceiling = (name: CeilingName) => (key: UsedKey) => describeCeiling(name, key.record.ceilings[name]);
  return csvFile<UsedKey>(
    `keys-${context.project.slug}.csv`,
    {
      name: ({ record }) => record.name,
      prefix: ({ record }) => record.prefix,
      state: ({ record }) => stateOf(record, context.now),
      models: ({ record }) => record.models?.join(' ') ?? null,
      ceiling_cost: ceiling('cost'),
      ceiling_calls: ceiling('calls'),
      ceiling_rpm: ceiling('rpm'),
      ceiling_tpm: ceiling('tpm'),
      spend_30_days_usd: ({ recent }) => exactUsd(recent.costNanos),
      calls_30_days: ({ recent }) => recent.calls,
      errors_30_days: ({ recent }) => recent.errors,
      last_error: ({ lastError }) => lastError?.code ?? lastError?.status ?? null,
      last_error_at: ({ lastError }) => toIso(lastError?.at),
      last_error_call: ({ lastError }) => lastError?.callId ?? null,
      last_used_at: ({ lastUsedAt }) => toIso(lastUsedAt),
      expires_at: ({ record }) => toIso(record.expiresAt),
      created_at: ({ record }) => toIso(record.createdAt),
      revoked_at: ({ record }) => toIso(record.revokedAt),
    },
    allPages(
      (before, limit) => readKeys(deps, context, before, limit),
      ({ record }) => record.id,
    ),
  );
}

function toIso(at: number | Date | null | undefined): string | null {
  return at === null || at === undefined ? null : new Date(at).toISOString();
}
