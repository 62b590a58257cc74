import type { Item, ItemKind, ItemOrigin } from '../../memory/records/item-record.ts';
import { defineAsset } from '../frame/assets.ts';
import { badge } from '../frame/components.ts';
import { endUserLink } from '../frame/end-user.ts';
import { type Html, html } from '../frame/html.ts';
import { projectPath } from '../frame/project-path.ts';
import type { ConsoleContext } from '../frame/route.ts';

export const styles = defineAsset(new URL('./memory.css', import.meta.url));

export const kindLabels: Readonly<Record<ItemKind, string>> = {
  fact: 'Fact',
  preference: 'Preference',
  decision: 'Decision',
  event: 'Event',
  procedure: 'Procedure',
};

export const originLabels: Readonly<Record<ItemOrigin, string>> = {
  agent: 'Saved by an application',
  observed: 'Learned from a conversation',
  person: 'Written by a person',
};

export const originNames: Readonly<Record<ItemOrigin, string>> = { observed: 'Learned', agent: 'Application', person: 'Person' };

export const importanceOptions = ['1', '2', '3', '4', '5'].map((value) => ({
  value,
  label: { 1: '1 – passing', 3: '3 – normal', 5: '5 – must never be forgotten' }[value] ?? value,
}));

export function memoryPath(context: Pick<ConsoleContext, 'project'>, id = ''): string {
  return projectPath(context, `/memory${id === '' ? '' : `/${id}`}`);
}

/** Renders the state of a memory as badges, unless it's simply live. */
export function stateBadges({ state, pinned, inRecall, supersededBy }: Item): Html {
  return html`${pinned ? html` ${badge('Pinned', 'accent')}` : ''}${state === 'live' && !inRecall ? html` ${badge('Left out of recall', 'warning')}` : ''}${
    state === 'closed' ? html` ${badge(supersededBy === null ? 'Removed' : 'Replaced')}` : ''
  }`;
}

export function subjectLabel(subject: string | null): Html | string {
  return subject === null ? html`<span class="muted">Whole project</span>` : html`<span class="cut" title="${subject}">${subject}</span>`;
}

export function subjectLink(context: Pick<ConsoleContext, 'project'>, subject: string | null): Html | string {
  return subject === null ? subjectLabel(null) : endUserLink(context, subject);
}

export function ratingsLabel({ useful, wrong }: Pick<Item, 'useful' | 'wrong'>): Html {
  const parts = [useful > 0 && `${useful} useful`, wrong > 0 && `${wrong} wrong`].filter((part) => part !== false);
  return parts.length === 0 ? html`<span class="muted">–</span>` : html`<span class="cut">${parts.join(', ')}</span>`;
}
