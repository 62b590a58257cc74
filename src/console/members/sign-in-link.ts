import type { People } from '../../people/people.ts';
import { signInLinkUrl } from '../../people/sign-in-links.ts';
import { codeBlock, formatTimeIn, notice, section } from '../frame/components.ts';
import { html } from '../frame/html.ts';
import type { ConsoleContext, PageContent } from '../frame/route.ts';

export interface LinkRecipient {
  readonly id: string;
  readonly email: string;
  readonly name: string;
}

/** Issues a one-time sign-in link, and returns the page with the link, which is never shown again. */
export async function issueSignInLink(
  links: People['links'],
  { origin, zone }: ConsoleContext,
  { id, email, name }: LinkRecipient,
  back: { readonly label: string; readonly href: string },
): Promise<PageContent> {
  const { secret, expiresAt } = await links.issue(id);
  return {
    kind: 'page',
    title: `Sign-in link for ${name}`,
    breadcrumbs: [back],
    actions: html`<a class="button" href="${back.href}">Done</a>`,
    content: html`${notice(html`Send it to ${email} over a channel that you trust. A person who opens it signs in with this account.`, 'warning', 'This is the only time you see this link')}
${section('Link', codeBlock(signInLinkUrl(origin, secret), 'The sign-in link'), { hint: `It works once, until ${formatTimeIn(expiresAt, zone, 'minute')} (${zone}).` })}`,
  };
}
