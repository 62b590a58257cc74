/** Describes in one sentence how a call ended, and quotes what the vendor said about it. */
import { errorSpecs } from '../../core/errors.ts';
import type { AttemptDetail, CallDetail } from '../../usage/analytics/call-detail.ts';
import { countOf, formatCount, formatDuration, nothing, sentence } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';

/** Explains why a call failed, or returns null if it succeeded. */
export function describeEnd(call: CallDetail): string | null {
  const { outcome, stream, tokens, estimated, durationMs, status, code, attempts } = call;
  const after = `after ${formatDuration(durationMs)}`;
  switch (outcome) {
    case 'ok':
      return null;
    case 'interrupted': {
      const count = `${estimated ? 'about ' : ''}${countOf(tokens.output, 'token')}`;
      const what = stream ? 'The stream' : 'The response';
      return tokens.output === 0 ? `${what} broke off before the first token.` : `${what} broke off after ${count}.`;
    }
    case 'client_left':
      return `The caller disconnected ${after}.`;
    case 'deadline':
      return `The call took longer than its caller allowed, and ended ${after}.`;
    case 'unknown':
      return 'The gateway stopped during the call, so nobody knows how it ended.';
    case 'refused':
    case 'failed': {
      const received = `The caller received ${status}.`;
      if (code === 'upstream_failed' || code === 'upstream_refused') return `${describeAttempts(attempts, outcome)} ${received}`;
      const known = Object.entries(errorSpecs).find(([name]) => name === code)?.[1];
      return known ? `${sentence(known.message)} ${received}` : received;
    }
  }
}

function describeAttempts(attempts: readonly AttemptDetail[], outcome: 'refused' | 'failed'): string {
  const verb = outcome === 'refused' ? 'refused the request' : 'failed';
  const models = [...new Set(attempts.map(({ provider, model }) => `${provider}/${model}`))];
  const [only = 'The model'] = models;
  if (models.length > 1) return `All ${formatCount(models.length)} models that were tried ${verb}.`;
  return attempts.length > 1 ? `${only} ${verb} ${formatCount(attempts.length)} times.` : `${only} ${verb}.`;
}

const reasons: Readonly<Record<string, string>> = {
  connect: 'The gateway could not connect to the vendor',
  timeout: 'The vendor did not respond in time',
  status: 'The vendor responded with an error',
  unreadable: 'The response could not be read',
  broken: 'The response broke off',
  deadline: 'The time that the caller allows was over',
  stopped: 'The gateway was stopped during the attempt',
  aborted: 'The caller disconnected',
  lost: 'The gateway process ended during the attempt',
  internal: 'The gateway itself failed',
};

export function attemptFailure({ error, status, requestId }: AttemptDetail): Html | null {
  if (!error) return null;
  const { reason, type, code, message } = error;
  const names = [type, code].filter((name) => name !== null).map((name) => html` <code>${name}</code>`);
  const quoted =
    message === null
      ? html`<p class="muted">${reason === 'status' ? 'The vendor sent no message, or the message was deleted.' : 'There is no message.'}</p>`
      : html`<blockquote class="text">${message}</blockquote>`;
  const id = requestId === null ? '' : html`<p class="hint">Request id at the vendor: <code>${requestId}</code></p>`;
  return html`<div class="failure"><p>${reasons[reason] ?? sentence(reason)}${status === null ? '' : ` (${status})`}${names}</p>${quoted}${id}</div>`;
}

/** Returns e.g. `Call of openai/gpt-5 at 2026-11-25 09:12:30`. */
export function titleOf({ model, requestedModel }: CallDetail, startedAt: string): string {
  return `${model === null ? `Call for ${requestedModel || nothing}` : `Call of ${model}`} at ${startedAt}`;
}
