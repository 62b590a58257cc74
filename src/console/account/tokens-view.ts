/**
 * Views for personal tokens: the list on the account page, the form for a new token, and the page that shows a new
 * token once.
 */
import { maxTokenDays, type PersonalToken } from '../../people/personal-tokens.ts';
import { scopeDescriptions, scopes } from '../../people/scopes.ts';
import {
  actionButton,
  ago,
  card,
  checkboxField,
  codeBlock,
  fieldset,
  fillFields,
  form,
  notice,
  section,
  selectField,
  table,
  textField,
  time,
} from '../frame/components.ts';
import { noErrors, type SubmittedForm } from '../frame/field-errors.ts';
import { type Html, html } from '../frame/html.ts';
import type { ConsoleContext, PageContent } from '../frame/route.ts';
import { accountPath } from './account-path.ts';

const tokensPath = `${accountPath}/tokens`;
const newTokenPath = `${tokensPath}/new`;

export function tokenSection(context: ConsoleContext, tokens: readonly PersonalToken[]): Html {
  const list = table({
    caption: 'Personal tokens',
    rows: tokens,
    empty: 'Create a token to use the gateway from Claude Code, Cursor, VS Code or another MCP client.',
    columns: [
      { label: 'Name', value: ({ name, prefix }) => html`${name}<br><span class="muted"><code>gwp_${prefix}</code></span>`, grow: true },
      { label: 'Scopes', value: (token) => token.scopes.join(', ') },
      { label: 'Last used', value: ({ lastUsedAt }) => (lastUsedAt === null ? 'Never' : ago(lastUsedAt, context.now, context.zone)) },
      { label: 'Expires', value: ({ expiresAt }) => time(expiresAt, context.zone, 'minute') },
      {
        label: '',
        align: 'end',
        value: ({ id, name }) =>
          actionButton({ context, action: `${tokensPath}/${id}/revoke`, label: 'Revoke', danger: true, about: `token ${name}` }),
      },
    ],
  });
  return section('Personal tokens', list, {
    id: 'tokens',
    hint: 'AI agents use these tokens to connect over MCP. A token acts as you in all of your projects, limited to its scopes.',
    actions: html`<a class="button" href="${newTokenPath}">New token</a>`,
  });
}

export function newTokenView(context: ConsoleContext, rejected?: SubmittedForm): PageContent {
  const submitted = rejected?.form ?? new URLSearchParams({ days: '30' });
  const errors = rejected?.errors ?? noErrors;
  const filled = fillFields(submitted, errors);
  const chosen = rejected ? submitted.getAll('scopes') : ['settings:read', 'usage:read'];
  const content = card(
    form({
      context,
      action: tokensPath,
      label: 'New token',
      fields: [
        textField({
          ...filled('name'),
          ...{ label: 'Name', required: true, maxLength: 100, autocomplete: 'off' },
          hint: 'Where you will use the token, such as “Claude Code on my laptop”.',
        }),
        fieldset(
          'Scopes',
          scopes.map((scope) =>
            checkboxField({
              ...{ name: 'scopes', value: scope, checked: chosen.includes(scope) },
              label: html`<code>${scope}</code> <span class="muted">${scopeDescriptions[scope]}</span>`,
              required: false,
            }),
          ),
          undefined,
          { name: 'scopes', error: errors.of('scopes') },
        ),
        selectField({
          ...filled('days'),
          ...{ label: 'Expires after', required: true },
          options: [7, 30, 60, maxTokenDays].map((days) => ({ value: String(days), label: `${days} days` })),
        }),
      ],
      submit: 'Create the token',
      cancelHref: accountPath,
    }),
  );
  return { kind: 'page', title: 'New personal token', content, breadcrumbs: [{ label: 'Account', href: accountPath }] };
}

export function createdTokenView({ name }: PersonalToken, token: string, mcpUrl: string): PageContent {
  const header = `Authorization: Bearer ${token}`;
  const config = { mcpServers: { gateway: { type: 'http', url: mcpUrl, headers: { Authorization: `Bearer ${token}` } } } };
  const content = html`${notice('Copy this token now, because it will not be shown again. Anyone who has it can act as you.', 'warning')}
${section(name, codeBlock(token, 'Token'))}
${section('Claude Code', codeBlock(`claude mcp add --transport http gateway ${mcpUrl} --header "${header}"`, 'Command for Claude Code'))}
${section('Other clients', codeBlock(JSON.stringify(config, null, 2), 'Configuration'), { hint: html`Use this in <code>.cursor/mcp.json</code> and in other clients with the same format. In VS Code, the first member is called <code>servers</code> instead.` })}
<p><a class="button" href="${accountPath}#tokens">Done</a></p>`;
  return { kind: 'page', title: 'Your new token', content, breadcrumbs: [{ label: 'Account', href: accountPath }] };
}
