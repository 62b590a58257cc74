/**
 * Renders the pages that people can see before they've signed in: the sign-in page, the page that a sign-in link opens,
 * and their error messages.
 */
import type { PersonRecord } from '../../people/accounts.ts';
import { signInLinkPath } from '../../people/sign-in-links.ts';
import { card, codeBlock, fillFields, notice, textField } from '../frame/components.ts';
import { noErrors, type SubmittedForm } from '../frame/field-errors.ts';
import { csrfField } from '../frame/form.ts';
import { type Html, html } from '../frame/html.ts';
import type { ConsoleContext, PageContent } from '../frame/route.ts';

export const signInPath = '/console/sign-in';
export const oidcPath = `${signInPath}/oidc`;

type FormContext = Pick<ConsoleContext, 'csrfToken'>;

interface SignInView {
  readonly next: string;
  readonly email?: string;
  readonly error?: string;
  readonly status?: number;
  /** The issuer of the configured identity provider. Null if there's no identity provider. */
  readonly provider: string | null;
  readonly nobodyExists: boolean;
}

export function signInView(
  context: FormContext,
  { next, email = '', error, status = 200, provider, nobodyExists }: SignInView,
): PageContent {
  const hasProvider = provider !== null;
  const content = html`${error === undefined ? '' : notice(error, 'bad')}${nobodyExists ? card(firstSignIn()) : ''}${
    nobodyExists && !hasProvider
      ? ''
      : card([
          hasProvider ? providerButton(provider, next) : html``,
          nobodyExists ? html`` : passwordForm(context, { next, email, isMain: !hasProvider }),
        ])
  }${nobodyExists ? '' : html`<p class="hint">No password, or forgotten? Ask the operator of this gateway for a sign-in link.</p>`}`;
  return { kind: 'page', title: 'Sign in', status, content };
}

function providerButton(issuer: string, next: string): Html {
  const href = `${oidcPath}?${new URLSearchParams({ next })}`;
  return html`<a class="button primary block" href="${href}">Sign in with ${new URL(issuer).host}</a>`;
}

function passwordForm(context: FormContext, { next, email, isMain }: { next: string; email: string; isMain: boolean }): Html {
  // If the address is known, e.g. after a wrong password, focus the password field.
  const isPasswordNext = email !== '';
  return html`${isMain ? '' : html`<p class="or">or with a password</p>`}
<form class="form" method="post" action="${signInPath}">${csrfField(context)}<input type="hidden" name="next" value="${next}">
${textField({ name: 'email', label: 'E-mail address', type: 'email', required: true, autocomplete: 'username', value: email, autofocus: isMain && !isPasswordNext })}
${textField({ name: 'password', label: 'Password', type: 'password', required: true, autocomplete: 'current-password', autofocus: isPasswordNext })}
<div class="form-actions"><button class="button${isMain ? ' primary' : ''} block">Sign in</button></div></form>`;
}

function firstSignIn(): Html[] {
  return [
    html`<p><strong>Nobody has an account yet.</strong> On the machine of the gateway, this command prints the link for the first sign-in:</p>`,
    codeBlock('npx gateway sign-in-link --admin', 'Command'),
  ];
}

interface LinkView {
  readonly token: string;
  /** The person to sign in. Null if they don't have an account yet. */
  readonly person: PersonRecord | null;
  readonly rejected?: SubmittedForm;
}

/** Doesn't use up the link, because mail scanners open links as well. */
export function linkView(context: FormContext, { token, person, rejected }: LinkView): PageContent {
  const errors = rejected?.errors ?? noErrors;
  const filled = fillFields(rejected?.form ?? new URLSearchParams(), errors);
  const password = (label: string, required: boolean, hint: string) =>
    textField({
      ...{ name: 'password', label, type: 'password', required, autocomplete: 'new-password', hint },
      error: errors.of('password'),
    });
  const fields =
    person === null
      ? [
          textField({
            ...filled('email'),
            label: 'E-mail address',
            type: 'email',
            required: true,
            autocomplete: 'username',
          }),
          textField({ ...filled('name'), label: 'Name', required: true, autocomplete: 'name' }),
          password('Password', true, 'At least 12 characters.'),
        ]
      : [
          // Password managers need this field to store the address together with the password.
          html`<input class="hidden" type="email" name="username" value="${person.email}" autocomplete="username" readonly tabindex="-1" aria-hidden="true">`,
          person.hasPassword
            ? password('New password', false, 'Leave it empty to keep your password. At least 12 characters.')
            : person.onlyProject === null
              ? password('Password', false, 'At least 12 characters. Without one, each sign-in needs a new link.')
              : html``,
        ];
  const text =
    person === null
      ? html`<p>This account administers the gateway: people, projects, prices, and every project as an owner.</p>`
      : html`<p>You sign in as <strong>${person.name}</strong> (${person.email}). The link works once.</p>`;
  const content = card([
    text,
    html`<form class="form" method="post" action="${signInLinkPath}">${csrfField(context)}<input type="hidden" name="token" value="${token}">${fields}
<div class="form-actions"><button class="button primary block">${person === null ? 'Create the account' : 'Sign in'}</button></div></form>`,
  ]);
  return { kind: 'page', title: person === null ? 'Create the admin account' : 'Sign in', content };
}

export function unusableLink(): PageContent {
  return failure(404, 'This link cannot be used', 'It was used already, or has expired. Ask for a new one, or sign in.');
}

export function failure(status: number, title: string, text: string): PageContent {
  const content = html`<div class="empty"><p>${text}</p><p><a class="button" href="${signInPath}">Go to the sign-in page</a></p></div>`;
  return { kind: 'page', title, status, content };
}
