/**
 * Keeps the input of a form if the session ended before somebody submitted it. We show people a page with their input.
 * They sign in in another tab, go back to this page and send the form again. This also works with identity providers,
 * and we don't have to store anything for visitors without a session.
 */
import type { FormLimits } from '../../http/form-body.ts';
import { describeField } from './field-labels.ts';
import { definitions } from './figures.ts';
import { csrfField } from './form.ts';
import { type Html, html } from './html.ts';
import type { PageContent } from './route.ts';
import { csrfTokenOf } from './same-site.ts';
import type { Visit } from './visit.ts';

/**
 * If the session has ended, we keep the input of forms up to this size while people sign in again. Anybody on the
 * network can request such a page without a session, so these limits have to be small.
 */
export const keptFormLimits: FormLimits = { maxBytes: 16 * 1024, maxFields: 300 };
/** People see this page after they've signed in in another tab. It tells them to go back to the tab with their form. */
export const signedInPath = '/signed-in';

/** Hidden fields that we leave out when we show people their input, because the values mean nothing to them. */
const technicalFields: ReadonlySet<string> = new Set(['csrf', 'read', 'key_id', 'next', 'removed', 'confirmed_days', 'zone']);

/**
 * Returns a page with the submitted input, or null if there's nothing to keep. Also null for forms with a password,
 * because passwords are never written into a page, and for forms with NUL, which HTML can't contain.
 */
export function keptFormPage(form: URLSearchParams, { url, secrets }: Pick<Visit, 'url' | 'secrets'>): PageContent | null {
  const fields = [...form].filter(([name]) => name !== 'csrf');
  if (fields.length === 0 || fields.some(([name, value]) => /password/i.test(name) || value.includes('\0'))) return null;
  const signIn = `/console/sign-in?${new URLSearchParams({ next: `/console${signedInPath}` })}`;
  return {
    kind: 'page',
    title: 'Your session has ended',
    status: 401,
    content: html`<p class="lead">Nothing has been saved or changed yet. Your input is kept on this page, as long as you leave it open.</p>
<div class="card stack"><ol class="steps"><li><a href="${signIn}" target="_blank" rel="noopener">Sign in again in a new tab</a></li><li>Come back to this tab and send the form again.</li></ol>
<form method="post" action="${url.pathname}${url.search}">${csrfField({ csrfToken: csrfTokenOf(secrets[0]) })}${fields.map(
      ([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`,
    )}<button class="button primary">Send again</button></form></div>
${inputList(fields)}`,
  };
}

function inputList(fields: readonly (readonly [name: string, value: string])[]): Html | string {
  const shown = fields.filter(([name, value]) => !technicalFields.has(name) && value !== '');
  if (shown.length === 0) return '';
  return html`<details class="kept-input"><summary>What you entered</summary>${definitions(
    shown.map(([name, value]) => [describeField(name), html`<span class="text">${value}</span>`]),
  )}</details>`;
}
