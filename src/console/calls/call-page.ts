/**
 * The page of a call. It begins with how the call ended and what the vendors said, followed by its text on demand. The
 * attempts, plan, cost, ceilings and memory come after that.
 */

import type { ReadCounters } from '../../ceilings/counter-usage.ts';
import { formatCounterKey } from '../../ceilings/counters.ts';
import { gatewayError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { addDays, startOf } from '../../core/time-zone.ts';
import type { KeyRecord } from '../../keys/key-record.ts';
import type { CallMemory, CallText } from '../../memory/conversations/read-call-text.ts';
import type { Analytics } from '../../usage/analytics/analytics.ts';
import type { CallDetail } from '../../usage/analytics/call-detail.ts';
import {
  badge,
  card,
  copyable,
  definitions,
  formatCount,
  formatDuration,
  formatTimeIn,
  notice,
  section,
  time,
  usd,
} from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext, ConsoleRoute, PageResult } from '../frame/route.ts';
import { periodQuery } from '../frame/time-range.ts';
import { attemptsSection, failuresOf } from './attempts.ts';
import { ceilingsOf, ceilingsSection } from './call-ceilings.ts';
import { costSection } from './call-cost.ts';
import { textSection } from './call-text.ts';
import { describeEnd, titleOf } from './describe-end.ts';
import { outcomeBadge, toneOf } from './outcome.ts';
import { planSection } from './plan.ts';
import { refusedCallPage } from './refused-call-page.ts';

export interface CallPageDeps {
  readonly analytics: Pick<Analytics, 'call' | 'refusedCall'>;
  readonly readStored: <Result>(query: () => Promise<Result>) => Promise<Result>;
  readonly listKeys: (projectId: string) => Promise<readonly KeyRecord[]>;
  readonly readCounters: ReadCounters;
  readonly readCallMemory: (projectId: string, callId: string) => Promise<CallMemory | null>;
  readonly readCallText: (projectId: string, callId: string) => Promise<CallText | null>;
  /** Returns the public URL of the gateway. If it's null, we use the origin of the request. */
  readonly publicUrl: () => string | null;
}

export function createCallPageRoutes(deps: CallPageDeps): readonly ConsoleRoute[] {
  return [{ method: 'get', path: '/calls/:id', access: 'member', handle: (context) => deps.readStored(() => showCall(deps, context)) }];
}

async function showCall(deps: CallPageDeps, context: ConsoleContext): Promise<PageResult> {
  const { project, params, url, zone } = context;
  const id = params.id ?? '';
  const call = isUuid(id) ? await deps.analytics.call(project.id, id) : null;
  if (!call) {
    const refused = isUuid(id) ? await deps.analytics.refusedCall(project.id, id) : null;
    if (!refused) throw gatewayError('not_found', { message: 'no such call' });
    return refusedCallPage(context, refused);
  }
  const withText = url.searchParams.get('text') === '1';
  const [memory, text, keys] = await Promise.all([
    deps.readCallMemory(project.id, id),
    withText ? deps.readCallText(project.id, id) : null,
    deps.listKeys(project.id),
  ]);
  const key = keys.find((record) => record.id === call.keyId) ?? null;
  const counters = ceilingsOf(project, call, key);
  const counted = await deps.readCounters(
    project.id,
    counters.map((counter) => counter.key),
  );
  const usages = counters.map((counter) => ({ counter, usage: counted.get(formatCounterKey(counter.key)) ?? null }));
  const shownText = memory === null ? 'not stored' : withText ? text : 'on demand';
  const origin = deps.publicUrl()?.replace(/\/$/, '') ?? url.origin;
  const content = html`${endNotice(call)}${failuresOf(call.attempts)}
${summary(context, call, key)}
${textSection(context, { call, text: shownText, origin })}
${attemptsSection(call)}
${planSection(call)}
${costSection(call)}
${ceilingsSection(context, call, usages)}
${memorySection(context, memory)}
${correlationSection(context, call)}`;
  return {
    kind: 'page',
    title: titleOf(call, formatTimeIn(call.startedAt, zone)),
    breadcrumbs: [{ label: 'Calls', href: projectPath(context, '/calls', aroundCall(call, zone)) }],
    actions: outcomeBadge(call),
    content,
  };
}

function endNotice(call: CallDetail): Html | string {
  const text = describeEnd(call);
  if (text === null) return '';
  return notice(html`${text}${call.code === null ? '' : html` <code>${call.code}</code>`}`, toneOf(call.outcome));
}

function summary(context: ConsoleContext, call: CallDetail, key: KeyRecord | null): Html {
  const { zone } = context;
  const around = aroundCall(call, zone);
  return card(
    definitions([
      ['Id', copyable(call.id)],
      ['Started', html`${time(call.startedAt, zone, 'millisecond')} <span class="zone">${zone}</span>`],
      ['Application', html`<a href="${projectPath(context, '/calls', { ...around, source: call.source })}">${call.source}</a>`],
      [
        'Key',
        html`<a href="${projectPath(context, '/calls', { ...around, key: call.keyPrefix })}">${key ? `${key.name} (${call.keyPrefix})` : call.keyPrefix}</a>`,
      ],
      ['Route', `${call.route}${call.stream ? ', streamed' : ''}`],
      ['Requested model', call.requestedModel],
      [
        'Served by',
        call.model === null
          ? 'No model'
          : html`<a href="${projectPath(context, '/calls', { ...around, model: call.model })}">${call.model}</a>`,
      ],
      ['Response cache', call.cache === null ? 'Not used on this route' : call.cache === 'hit' ? badge('Hit', 'accent') : 'Miss'],
      ['Latency', formatDuration(call.durationMs)],
      ['Time to first chunk', formatDuration(call.firstByteMs)],
      ['Cost', usd(call.costNanos)],
      [
        'End user',
        call.subjectSha256 === null
          ? 'Not given'
          : html`<a href="${projectPath(context, '/calls', { ...around, subject: call.subjectSha256 })}"><code title="SHA-256 of the subject">${call.subjectSha256.slice(0, 16)}…</code></a>`,
      ],
    ]),
  );
}

function memorySection(context: ConsoleContext, memory: CallMemory | null): Html | string {
  if (!memory || (memory.recalled.length === 0 && memory.conversationId === null)) return '';
  const { recalled, conversationId } = memory;
  const conversation =
    conversationId === null
      ? ''
      : html`<p>Part of the conversation <a href="${projectPath(context, `/conversations/${conversationId}`)}"><code>${conversationId}</code></a>.</p>`;
  const items =
    recalled.length === 0
      ? html`<p class="muted">No memories were added to the prompt.</p>`
      : html`<p>${formatCount(recalled.length)} ${recalled.length === 1 ? 'memory was' : 'memories were'} added to the prompt:</p><ul class="bare">${recalled.map(
          ({ id, kind }) =>
            html`<li>${
              kind === null
                ? html`<code>${id}</code> <span class="muted">deleted</span>`
                : html`<a href="${projectPath(context, `/memory/${id}`)}"><code>${id}</code></a> ${badge(kind)}`
            }</li>`,
        )}</ul>`;
  return section('Memory', card(html`<div class="stack">${conversation}${items}</div>`));
}

function correlationSection(context: ConsoleContext, call: CallDetail): Html | string {
  const around = aroundCall(call, context.zone);
  const link = (name: string, value: string | null): Html | null =>
    value === null ? null : html`<a href="${projectPath(context, '/calls', { ...around, [name]: value })}">${value}</a>`;
  const entries: [string, Html | string | null][] = [
    ['Task', link('task', call.taskId)],
    ['Turn', link('turn', call.turnId)],
    ['Agent', link('agent', call.agentId)],
    ['Trigger', link('trigger', call.triggerKind)],
    ['Trigger detail', call.triggerDetail],
    ['Iteration', call.iteration === null ? null : formatCount(call.iteration)],
    ['Tokens saved by distillation', call.distilSaved === null ? null : formatCount(call.distilSaved)],
  ];
  const given = entries.filter(([, value]) => value !== null);
  return given.length === 0
    ? ''
    : section('Correlation', card(definitions(given)), { hint: 'Each link leads to the calls with the same value.' });
}

/** Returns the week around the call, so that the lists we link to include it. */
function aroundCall({ startedAt }: CallDetail, zone: string): Record<string, string> {
  const day = startOf('day', zone, startedAt.getTime());
  return periodQuery({ from: addDays(zone, day, -3), to: addDays(zone, day, 4) }, zone);
}
