/** Small building blocks of pages: cards, badges, meters, notices and code. */
import { type Html, html } from './html.ts';

export interface Stat {
  readonly label: string;
  readonly value: Html | string;
  /** Links to the list of what was counted, e.g. to the list of calls. */
  readonly href?: string;
  readonly hint?: Html | string;
  /**
   * `share` is the change since the previous period, e.g. 0.12 for 12% more. `good` says whether the change is good or
   * bad, which determines the colour. It's null if the change is neither.
   */
  readonly delta?: { readonly share: number; readonly good: boolean | null };
}

export function stats(items: readonly Stat[]): Html {
  return html`<ul class="stats">${items.map(statCard)}</ul>`;
}

function statCard({ label, value, href, hint, delta }: Stat): Html {
  const title = href === undefined ? label : html`<a class="row-link" href="${href}">${label}</a>`;
  return html`<li class="card stat${href === undefined ? '' : ' linked'}"><p class="stat-label">${title}</p>
<p class="stat-value">${value}${delta === undefined ? '' : deltaBadge(delta)}</p>${hint === undefined ? '' : html`<p class="hint">${hint}</p>`}</li>`;
}

function deltaBadge({ share, good }: NonNullable<Stat['delta']>): Html {
  const percent = Math.round(Math.abs(share) * 100);
  const tone = good === null || percent === 0 ? 'muted' : good ? 'good' : 'bad';
  const direction = share > 0 ? 'up' : 'down';
  return html` <span class="delta ${tone}"><span aria-hidden="true">${percent === 0 ? '±' : share > 0 ? '↑' : '↓'}</span><span class="hidden">${direction} </span>${percent}%</span>`;
}

/**
 * Compares a figure with the one of the previous period. `isGood` says whether an increase is good (true), bad (false)
 * or neither (null).
 */
export function statDelta(now: number | null, before: number | null, isGood: boolean | null): Pick<Stat, 'delta'> {
  if (now === null || !before) return {};
  const change = (now - before) / before;
  return { delta: { share: change, good: isGood === null ? null : isGood === change > 0 } };
}

export function section(
  title: string,
  content: Html | readonly Html[],
  { actions, hint, id }: { readonly actions?: Html; readonly hint?: Html | string; readonly id?: string } = {},
): Html {
  return html`<section class="section"${id === undefined ? '' : html` id="${id}"`}><header><div><h2>${title}</h2>${
    hint === undefined ? '' : html`<p class="hint">${hint}</p>`
  }</div>${actions === undefined ? '' : html`<div class="actions">${actions}</div>`}</header>${content}</section>`;
}

export function card(content: Html | readonly Html[]): Html {
  return html`<div class="card">${content}</div>`;
}

export type Tone = 'neutral' | 'good' | 'warning' | 'bad' | 'accent';

export function badge(label: string, tone: Tone = 'neutral'): Html {
  return html`<span class="badge ${tone}">${label}</span>`;
}

interface MeterOptions {
  readonly label: string;
  readonly value: number;
  readonly max: number;
  readonly text: Html | string;
}

/** Shows how much of a limit is used. The colour changes at 80% and at 100%. */
export function meter({ label, value, max, text }: MeterOptions): Html {
  const share = max === 0 ? 1 : Math.min(1, value / max);
  const tone = share >= 1 ? 'bad' : share >= 0.8 ? 'warning' : 'accent';
  const width = Math.round(share * 1_000) / 10;
  return html`<div class="meter"><svg class="meter-bar ${tone}" viewBox="0 0 100 4" preserveAspectRatio="none" role="img" aria-label="${label}: ${Math.round(share * 100)}%">
<rect class="track" width="100" height="4"/><rect class="value" width="${width}" height="4"/></svg><span class="meter-text">${text}</span></div>`;
}

export function definitions(items: readonly (readonly [label: string, value: Html | string | number | null])[]): Html {
  return html`<dl class="definitions">${items.map(([label, value]) => html`<div><dt>${label}</dt><dd>${value ?? '–'}</dd></div>`)}</dl>`;
}

/** Renders preformatted text with a copy button, which needs JavaScript. `label` is for screen readers. */
export function codeBlock(text: string, label: string): Html {
  return html`<div class="code-block"><pre tabindex="0" role="region" aria-label="${label}"><code>${text}</code></pre><button class="button small copy" type="button" data-copy hidden>Copy</button></div>`;
}

/** Renders a short text such as an id with a copy button, which needs JavaScript. */
export function copyable(text: string): Html {
  return html`<span class="copyable"><code>${text}</code><button class="button small plain copy" type="button" data-copy hidden aria-label="Copy ${text}">Copy</button></span>`;
}

export function notice(text: Html | string, tone: Tone = 'neutral', title?: string): Html {
  return html`<div class="notice ${tone}" role="${tone === 'bad' ? 'alert' : 'status'}">${
    title === undefined ? '' : html`<p class="notice-title">${title}</p>`
  }<p>${text}</p></div>`;
}
