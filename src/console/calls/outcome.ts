import type { Outcome } from '../../core/call.ts';
import { badge, type Tone } from '../frame/components.ts';
import type { Html } from '../frame/html.ts';

export const tones: Readonly<Record<Outcome, Exclude<Tone, 'accent'>>> = {
  ok: 'good',
  refused: 'warning',
  failed: 'bad',
  interrupted: 'bad',
  client_left: 'neutral',
  deadline: 'warning',
  unknown: 'warning',
};

export function outcomeBadge({ outcome, status }: { readonly outcome: Outcome; readonly status: number | null }): Html {
  return badge(`${status ?? 'no response'}${outcome === 'ok' ? '' : ` ${outcome.replace('_', ' ')}`}`, tones[outcome]);
}
