import type { Outcome } from '../../core/call.ts';
import { badge, type Tone } from '../frame/components.ts';
import type { Html } from '../frame/html.ts';

const labels: Readonly<Record<Outcome, string>> = {
  ok: 'ok',
  refused: 'refused',
  failed: 'failed',
  interrupted: 'interrupted',
  client_left: 'client left',
  deadline: 'deadline',
  unknown: 'unknown',
};

export function outcomeBadge({ outcome, status }: { readonly outcome: Outcome; readonly status: number | null }): Html {
  return badge(`${status ?? 'no response'}${outcome === 'ok' ? '' : ` ${labels[outcome]}`}`, toneOf(outcome));
}

export function toneOf(outcome: Outcome): Exclude<Tone, 'accent'> {
  switch (outcome) {
    case 'ok':
      return 'good';
    case 'client_left':
      return 'neutral';
    case 'refused':
    case 'deadline':
    case 'unknown':
      return 'warning';
    case 'failed':
    case 'interrupted':
      return 'bad';
  }
}
