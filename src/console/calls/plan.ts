/** Explains which models were candidates for a call and why others were skipped. */
import type { Outcome, PlanEntry } from '../../core/call.ts';
import type { AttemptDetail, CallDetail } from '../../usage/analytics/call-detail.ts';
import { badge, section, table } from '../frame/components.ts';
import type { Html } from '../frame/html.ts';
import { explainSkip } from '../frame/skip-reasons.ts';
import { tones } from './outcome.ts';

export function planSection(call: CallDetail): Html {
  const attempts = Map.groupBy(call.attempts, ({ provider, model }) => `${provider}/${model}`);
  const attemptsOf = ({ model }: PlanEntry): readonly AttemptDetail[] => attempts.get(model) ?? [];
  return section(
    'Plan',
    table<PlanEntry & { readonly place: number }>({
      caption: 'Models of the plan',
      rows: call.plan.map((entry, index) => ({ ...entry, place: index + 1 })),
      empty: 'The call ended before any models were selected.',
      columns: [
        { label: 'Order', value: ({ place }) => place },
        { label: 'Model', value: ({ model }) => model },
        { label: 'State', value: (entry) => stateOf(entry, attemptsOf(entry)) },
        { label: 'Why', value: (entry) => explain(entry, call, attemptsOf(entry)) },
      ],
    }),
    { hint: `Models for ${call.requestedModel}, in the order in which they are tried.` },
  );
}

function stateOf({ skipped }: PlanEntry, attempts: readonly AttemptDetail[]): Html {
  if (skipped !== null) return badge('skipped', 'warning');
  const last = attempts.at(-1);
  if (!last) return badge('not needed');
  return badge(`${attempts.length === 1 ? 'attempt' : 'attempts'} ${attempts.map(({ n }) => n).join(', ')}`, tones[last.outcome]);
}

function explain({ model, skipped, lacks, canary, filled }: PlanEntry, call: CallDetail, attempts: readonly AttemptDetail[]): string {
  const origin = filled
    ? 'This is a substitute from the catalog, because no model of the chain can be used. '
    : canary !== undefined
      ? `This is the canary of the tier ${canary}. `
      : '';
  if (skipped !== null) return `${origin}${explainSkip(skipped, model, call.route, lacks)}`;
  const last = attempts.at(-1);
  if (last) return `${origin}${explainAttempt(last)}`;
  if (call.cache === 'hit') return `${origin}The response came from the response cache.`;
  if (call.attempts.length === 0) return `${origin}The call ended before a model was called.`;
  return `${origin}${call.outcome === 'ok' ? 'Another model answered first.' : 'The call ended before its turn.'}`;
}

function explainAttempt({ outcome, status }: AttemptDetail): string {
  const texts: Readonly<Record<Outcome, string>> = {
    ok: 'It served the call.',
    refused: status === null ? 'The request cannot be expressed in its dialect.' : `It refused the request with status ${status}.`,
    failed: status === null ? 'It failed without a response.' : `It failed with status ${status}.`,
    interrupted: 'Its response ended early.',
    client_left: 'The caller disconnected.',
    deadline: 'The deadline set by the caller passed.',
    unknown: 'Its outcome is unknown, because the gateway stopped during the attempt.',
  };
  return texts[outcome];
}
