/**
 * The page of a call. It starts with the outcome and what the vendors said, and shows the text on demand. After that
 * come the call's attempts, plan, cost, ceilings and memory.
 */

import { formatCounterKey } from '../../ceilings/counters.ts';
import { gatewayError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import type { Queries } from '../../db/database.ts';
import type { KeyRecord } from '../../keys/key-record.ts';
import { findSubjects } from '../../memory/conversations/find-subjects.ts';
import { readMentions } from '../../memory/conversations/mentions.ts';
import { readCallMemory, readCallText } from '../../memory/conversations/read-call-text.ts';
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
import { endUserLink, endUserPathOfHash } from '../frame/end-user.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import { type ConsoleContext, type ConsoleRoute, get, type PageResult } from '../frame/route.ts';
import { weekAround } from '../frame/time-range.ts';
import { attemptsSection, failuresOf } from './attempts.ts';
import { ceilingsOf, ceilingsSection } from './call-ceilings.ts';
import { costSection } from './call-cost.ts';
import { memorySection } from './call-memory.ts';
import { textSection } from './call-text.ts';
import type { CallsDeps } from './deps.ts';
import { describeEnd, titleOf } from './describe-end.ts';
import { outcomeBadge, tones } from './outcome.ts';
import { planSection } from './plan.ts';
import { refusedCallPage } from './refused-call-page.ts';

/** Limits how much text of a call is shown, because a prompt can have thousands of messages. */
const textLimits = { maxMessages: 100, maxText: 20_000 };

export function createCallPageRoutes(deps: CallsDeps): readonly ConsoleRoute[] {
  return [get('/calls/:id', 'member', (context) => deps.readStored(() => showCall(deps, context), context.project.id))];
}

async function showCall(deps: CallsDeps, context: ConsoleContext): Promise<PageResult> {
  const { project, params, url, zone } = context;
  const id = params.id ?? '';
  const call = isUuid(id) ? await deps.analytics.call(project.id, id) : null;
  if (!call) {
    const refused = isUuid(id) ? await deps.analytics.refusedCall(project.id, id) : null;
    if (!refused) throw gatewayError('not_found', { message: 'no such call' });
    return refusedCallPage(context, refused);
  }
  const withText = url.searchParams.get('text') === '1';
  const { subjectSha256 } = call;
  const [{ memory, mentions }, text, keys, subjects] = await Promise.all([
    readMemory(deps.queries, project.id, id),
    withText ? readCallText(deps.queries, project.id, id, textLimits) : null,
    deps.listKeys(project.id),
    findSubjects(deps.queries, project.id, subjectSha256 === null ? [] : [subjectSha256]),
  ]);
  const key = keys.find((record) => record.id === call.keyId) ?? null;
  const counters = ceilingsOf(project, call, key);
  const counterKeys = counters.map((counter) => counter.key);
  const counted = await deps.readCounters(project.id, counterKeys);
  const usages = counters.map((counter) => ({ counter, usage: counted.get(formatCounterKey(counter.key)) ?? null }));
  const shownText = memory === null ? 'not stored' : withText ? text : 'on demand';
  const content = html`${endNotice(call)}${failuresOf(call.attempts)}
${summary(context, call, key, subjects.get(subjectSha256 ?? ''))}
${textSection(context, call, shownText)}
${attemptsSection(call)}
${planSection(call)}
${costSection(call)}
${ceilingsSection(context, call, usages)}
${memorySection(context, { call, memory, mentions })}
${correlationSection(context, call)}`;
  return {
    kind: 'page',
    title: titleOf(call, formatTimeIn(call.startedAt, zone)),
    breadcrumbs: [{ label: 'Calls', href: projectPath(context, '/calls', weekAround(call.startedAt.getTime(), zone)) }],
    actions: outcomeBadge(call),
    content,
  };
}

async function readMemory(queries: Queries, projectId: string, callId: string) {
  const memory = await readCallMemory(queries, projectId, callId);
  const mentions = memory && memory.recalled.length > 0 ? await readMentions(queries, projectId, callId, memory.recalled) : null;
  return { memory, mentions };
}

function endNotice(call: CallDetail): Html | string {
  const text = describeEnd(call);
  if (text === null) return '';
  return notice(html`${text}${call.code === null ? '' : html` <code>${call.code}</code>`}`, tones[call.outcome]);
}

function summary(context: ConsoleContext, call: CallDetail, key: KeyRecord | null, subject: string | undefined): Html {
  const { zone } = context;
  const around = weekAround(call.startedAt.getTime(), zone);
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
      ['End user', endUser(context, call, subject)],
    ]),
  );
}

/** Shows the end user's name, or the beginning of the hash if the name isn't stored. */
function endUser(context: ConsoleContext, { subjectSha256: sha256 }: CallDetail, subject: string | undefined): Html | string {
  if (sha256 === null) return 'Not given';
  return subject === undefined
    ? html`<a href="${endUserPathOfHash(context, sha256)}"><code title="SHA-256 of the subject">${sha256.slice(0, 16)}…</code></a>`
    : endUserLink(context, subject);
}

function correlationSection(context: ConsoleContext, call: CallDetail): Html | string {
  const around = weekAround(call.startedAt.getTime(), context.zone);
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
