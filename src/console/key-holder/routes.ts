/**
 * `/my-key`, where holders of a virtual key without an account can paste the key and see its usage. The browser doesn't
 * keep the key, only a pass that lasts an hour. A pass isn't a session and can't change anything. The key is checked on
 * each request, so the pass ends when the key is revoked.
 */
import { GatewayError, gatewayError } from '../../core/errors.ts';
import { addDays, startOf, startOfNext } from '../../core/time-zone.ts';
import { type Cookie, hostCookieName } from '../../http/cookies.ts';
import type { KeyOfPass, Keyring } from '../../keys/keyring.ts';
import { limitKey, networkOf } from '../../people/attempt-limit.ts';
import type { People } from '../../people/people.ts';
import type { Projects } from '../../projects/projects.ts';
import type { Analytics } from '../../usage/analytics/analytics.ts';
import type { CallSummary } from '../../usage/analytics/call-list.ts';
import type { StatusReport } from '../../usage/status.ts';
import { exactUsd } from '../frame/components.ts';
import { parsePageId } from '../frame/paging.ts';
import {
  type ActionRoute,
  type ConsoleContext,
  type ConsoleRoute,
  type CsvValue,
  get,
  type PageContent,
  type PageRoute,
  post,
} from '../frame/route.ts';
import { keyView, myKeyPath, pasteView } from './pages.ts';

export interface KeyHolderDeps {
  readonly keyring: Pick<Keyring, 'issuePass' | 'findByPass'>;
  readonly people: Pick<People, 'attempts'>;
  readonly projects: Pick<Projects, 'get'>;
  /** Returns the same report as `GET /status/peek`. */
  readonly getStatus: (caller: KeyOfPass['caller']) => Promise<StatusReport>;
  readonly analytics: Pick<Analytics, 'figures' | 'callPage' | 'streamCalls'>;
  readonly readStored: <Result>(query: () => Promise<Result>, projectId: string) => Promise<Result>;
}

const passMs = 3_600_000;
const maxFailuresPerAddress = 30;
const callsPerPage = 25;
const chartDays = 30;

export function createKeyHolderRoutes(deps: KeyHolderDeps): readonly ConsoleRoute[] {
  const { keyring, people, projects, getStatus, analytics, readStored } = deps;

  /**
   * Returns the key for the pass in the browser's cookie, or null if there's no pass. Throws `invalid_key` if the pass
   * or the key is no longer valid.
   */
  const findKey = async (context: ConsoleContext): Promise<KeyOfPass | null> => {
    const pass = context.cookies[cookieName(context)];
    return pass === undefined ? null : keyring.findByPass(pass);
  };

  const show = async (context: ConsoleContext, { record, caller, endsAt }: KeyOfPass): Promise<PageContent> => {
    const project = await projects.get(record.projectId);
    const zone = project.settings.timeZone;
    const to = startOfNext('minute', zone, context.now);
    const own = { projectId: project.id, filter: { key: record.prefix }, to, signal: context.signal } as const;
    const today = startOf('day', zone, context.now);
    const before = parsePageId(context);
    const [status, month, days, page] = await readStored(
      () =>
        Promise.all([
          getStatus(caller),
          analytics.figures({ ...own, zone, from: startOf('month', zone, context.now), costly: ['latency'] }),
          analytics.figures({ ...own, zone, from: startOf('day', zone, addDays(zone, today, 1 - chartDays)), unit: 'day' }),
          analytics.callPage({ ...own, from: record.createdAt, before, limit: callsPerPage }),
        ]),
      project.id,
    );
    return keyView({ context, record, project, zone, endsAt, status, month: month.total, days, page });
  };

  const page: PageRoute = get(myKeyPath, 'anyone', async (context) => {
    try {
      const key = await findKey(context);
      return key === null ? pasteView(context) : await show(context, key);
    } catch (error) {
      if (!(error instanceof GatewayError) || error.code !== 'invalid_key') throw error;
      const ended = 'This view has ended, or the key was revoked or has expired. Paste the key again.';
      return { ...pasteView(context, ended), setCookies: [endOfPass(context)] };
    }
  });

  // Opening the page changes nothing, so it isn't audited.
  const open: ActionRoute = post(myKeyPath, { access: 'anyone', action: null }, async (context, form) => {
    const address = limitKey('key', networkOf(context.remoteAddress), maxFailuresPerAddress);
    const until = await people.attempts.count([address]);
    if (until !== null) {
      const minutes = Math.ceil((until - context.now) / 60_000);
      return { kind: 'page', page: { ...pasteView(context, `Too many failed attempts. Try again in ${minutes} minutes.`), status: 429 } };
    }
    try {
      const pass = await keyring.issuePass((form.get('key') ?? '').trim(), context.now + passMs);
      await people.attempts.takeBack(address);
      const cookie = { name: cookieName(context), value: pass, maxAgeSeconds: passMs / 1_000 };
      return { kind: 'redirect', to: myKeyPath, setCookies: [cookie] };
    } catch (error) {
      if (!(error instanceof GatewayError) || error.code !== 'invalid_key') throw error;
      return { kind: 'page', page: { ...pasteView(context, 'This key is not valid, or it was revoked or has expired.'), status: 401 } };
    }
  });

  const close: ActionRoute = post(`${myKeyPath}/close`, { access: 'anyone', action: null }, async (context) => ({
    kind: 'redirect',
    to: myKeyPath,
    setCookies: [endOfPass(context)],
  }));

  const csv: PageRoute = get(`${myKeyPath}.csv`, 'anyone', async (context) => {
    const key = await findKey(context);
    if (key === null) throw gatewayError('missing_key', { message: 'paste the key first' });
    const { record } = key;
    const selection = {
      projectId: record.projectId,
      filter: { key: record.prefix },
      from: record.createdAt,
      to: context.now,
      signal: context.signal,
    };
    return {
      kind: 'csv',
      fileName: `calls-of-${record.prefix}.csv`,
      header: ['id', 'started_at (UTC)', 'route', 'source', 'model', 'status', 'outcome', 'tokens_in', 'tokens_out', 'cost_usd', 'ms'],
      rows: toCsvRows(analytics.streamCalls(selection)),
    };
  });
  return [page, open, close, csv];
}

async function* toCsvRows(calls: AsyncIterable<CallSummary>): AsyncGenerator<readonly CsvValue[]> {
  for await (const call of calls) {
    const { id, startedAt, route, source, model, status, outcome, costNanos, durationMs } = call;
    const input = call.input + call.cachedInput + call.cacheWrite;
    const cost = costNanos === null ? null : exactUsd(costNanos);
    yield [id, startedAt.toISOString(), route, source, model, status, outcome, input, call.output, cost, durationMs];
  }
}

function cookieName({ secure }: ConsoleContext): string {
  return hostCookieName('gateway_key_pass', secure);
}

function endOfPass(context: ConsoleContext): Cookie {
  return { name: cookieName(context), value: '', maxAgeSeconds: 0 };
}
