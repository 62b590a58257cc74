/** The attempts of a call: a waterfall, a table, and why each of them failed. */
import type { AttemptDetail, CallDetail } from '../../usage/analytics/call-detail.ts';
import {
  card,
  copyable,
  definitions,
  equalUsd,
  formatCount,
  formatDuration,
  type Span,
  section,
  table,
  waterfall,
} from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';
import { attemptFailure } from './describe-end.ts';
import { outcomeBadge, tones } from './outcome.ts';

/** Lists the failures in the vendors' own words, at the top of the page because that's what people look for first. */
export function failuresOf(attempts: readonly AttemptDetail[]): Html | string {
  const failed = attempts.flatMap((attempt): [string, Html][] => {
    const failure = attemptFailure(attempt);
    return failure === null ? [] : [[labelOf(attempt), failure]];
  });
  return failed.length === 0 ? '' : section('Why attempts failed', card(html`<div class="failures">${definitions(failed)}</div>`));
}

export function attemptsSection({ attempts, startedAt, durationMs, cache }: CallDetail): Html {
  if (attempts.length === 0) {
    const why = cache === 'hit' ? 'the response came from the response cache' : 'the call ended before a vendor was called';
    return section('Attempts', card(html`<p class="muted">There were no attempts, because ${why}.</p>`));
  }
  const spans = attempts.flatMap((attempt): Span[] => {
    const start = attempt.startedAt.getTime() - startedAt.getTime();
    const wait: Span = {
      label: html`<span class="muted">Wait before attempt ${attempt.n}</span>`,
      start: start - attempt.waitMs,
      end: start,
      tone: 'neutral',
      detail: formatDuration(attempt.waitMs),
      title: `The vendor asked us to wait ${formatDuration(attempt.waitMs)}`,
    };
    return [...(attempt.waitMs === 0 ? [] : [wait]), toSpan(attempt, start)];
  });
  return section('Attempts', html`${card(waterfall('Attempts over time', spans, durationMs))}${attemptTable(attempts)}`);
}

function labelOf(attempt: AttemptDetail): string {
  return `${attempt.n}. ${modelOf(attempt)}`;
}

function modelOf({ provider, model, member }: AttemptDetail): string {
  return member === null ? `${provider}/${model}` : `${provider}/${model} at ${member}`;
}

function toSpan(attempt: AttemptDetail, start: number): Span {
  const { outcome, firstByteMs, durationMs } = attempt;
  const first = firstByteMs === null ? 'no first byte' : `first byte after ${formatDuration(firstByteMs)}`;
  return {
    label: labelOf(attempt),
    start,
    end: start + durationMs,
    ...(firstByteMs !== null && { mark: start + Math.min(firstByteMs, durationMs) }),
    tone: tones[outcome],
    detail: outcomeBadge(attempt),
    title: `Attempt ${labelOf(attempt)}: ${first}, ${formatDuration(durationMs)} in total`,
  };
}

function attemptTable(attempts: readonly AttemptDetail[]): Html {
  const money = equalUsd(attempts.map(({ costNanos }) => costNanos));
  return table<AttemptDetail>({
    caption: 'Attempts',
    rows: attempts,
    columns: [
      { label: 'Attempt', value: ({ n }) => n },
      { label: 'Model', grow: true, value: (attempt) => html`${modelOf(attempt)}${requestIdOf(attempt)}` },
      { label: 'Result', value: outcomeBadge },
      { label: 'Wait', align: 'end', value: ({ waitMs }) => formatDuration(waitMs) },
      { label: 'First byte', align: 'end', value: ({ firstByteMs }) => formatDuration(firstByteMs) },
      { label: 'Duration', align: 'end', value: ({ durationMs }) => formatDuration(durationMs) },
      { label: 'Tokens', align: 'end', value: ({ input, output }) => `${formatCount(input)} in, ${formatCount(output)} out` },
      { label: 'Cost', align: 'end', value: ({ costNanos }) => money(costNanos) },
    ],
  });
}

function requestIdOf({ requestId }: AttemptDetail): Html | string {
  return requestId === null ? '' : html`<br><span class="muted">Request id at the vendor:</span> ${copyable(requestId)}`;
}
