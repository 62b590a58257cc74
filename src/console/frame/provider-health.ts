/**
 * Computes the health of providers from the circuit breakers and the latest attempts of all projects, so that pages of
 * a project and of the deployment agree.
 */
import { minuteMs } from '../../core/time.ts';
import type { OpenBreaker } from '../../routing/open-breakers.ts';
import type { Analytics } from '../../usage/analytics/analytics.ts';
import type { RecentAttempts } from '../../usage/analytics/deployment-providers.ts';
import { badge } from './figures.ts';
import { type Html, html } from './html.ts';

export interface ProviderHealth {
  /** The provider's attempts in the last 15 minutes. Null if there weren't any. */
  readonly recent: RecentAttempts | null;
  /** Open and half-open breakers of the provider and its pool members. */
  readonly breakers: readonly OpenBreaker[];
}

export type ReadHealth = (now: number) => Promise<(provider: string) => ProviderHealth>;

const healthMs = 15 * minuteMs;

export function createReadHealth({
  analytics,
  readOpenBreakers,
}: {
  readonly analytics: Pick<Analytics, 'deployment'>;
  readonly readOpenBreakers: () => Promise<readonly OpenBreaker[]>;
}): ReadHealth {
  return async (now) => {
    const [recent, breakers] = await Promise.all([analytics.deployment.recentAttempts(now - healthMs), readOpenBreakers()]);
    return (name) => ({
      recent: recent.find(({ provider }) => provider === name) ?? null,
      breakers: breakers.filter(({ provider }) => provider === name || provider.startsWith(`${name}/`)),
    });
  };
}

/**
 * A provider counts as failing if at least this share of its recent attempts failed, unless there were too few
 * attempts.
 */
const failingShare = 0.2;
const enoughAttempts = 5;

export const healthRule =
  'A provider is down if a circuit breaker is open in any project, and failing if at least a fifth of its attempts of the last 15 minutes failed, in all projects together.';

/**
 * Shows the provider's health across all projects. Doesn't say which projects are affected, because members may not see
 * other projects.
 */
export function healthBadge({ recent, breakers }: ProviderHealth): Html {
  const [worst] = breakers.toSorted((left, right) => Number(right.state === 'open') - Number(left.state === 'open'));
  if (worst) return breakerBadge(worst);
  if (recent === null) return html`<span class="muted">Not called</span>`;
  const failed = recent.failed / recent.attempts;
  if (recent.attempts >= enoughAttempts && failed >= failingShare) return badge('failing', failed >= 0.5 ? 'bad' : 'warning');
  return badge('healthy', 'good');
}

export function breakerBadge({ state }: OpenBreaker): Html {
  return state === 'open' ? badge('down', 'bad') : badge('probing', 'warning');
}
