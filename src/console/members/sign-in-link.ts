/** The page that shows a new one-time sign-in link, which is never shown again. */
import { codeBlock, formatTimeIn, notice, section } from '../frame/components.ts';
import { html } from '../frame/html.ts';
import type { ConsoleContext, PageContent } from '../frame/route.ts';

export interface IssuedLink {
  readonly person: { readonly email: string; readonly name: string };
  readonly url: string;
  readonly expiresAt: number;
}

export function signInLinkPage(
  context: Pick<ConsoleContext, 'zone'>,
  { person, url, expiresAt }: IssuedLink,
  back: { readonly label: string; readonly href: string },
): PageContent {
  return {
    kind: 'page',
    title: `Sign-in link for ${person.name}`,
    breadcrumbs: [back],
    actions: html`<a class="button" href="${back.href}">Done</a>`,
    content: html`${notice(html`Send it to ${person.email} over a channel that you trust. A person who opens it signs in with this account.`, 'warning', 'This is the only time you see this link')}
${section('Link', codeBlock(url, 'The sign-in link'), { hint: `It works once, until ${formatTimeIn(expiresAt, context.zone, 'minute')} (${context.zone}).` })}`,
  };
}
