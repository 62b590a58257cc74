/** Routes to create and revoke personal tokens. The account page lists them. */
import type { PersonalTokens } from '../../people/personal-tokens.ts';
import type { ConsoleRoute } from '../frame/route.ts';
import { accountPath } from './account-path.ts';
import { createdTokenView, newTokenView } from './tokens-view.ts';

export interface TokenRouteDeps {
  readonly personalTokens: PersonalTokens;
  /** Returns the public scheme and host of the gateway. If this is null, we use the host of the request. */
  readonly publicUrl: () => string | null;
}

export function createTokenRoutes({ personalTokens, publicUrl }: TokenRouteDeps): readonly ConsoleRoute[] {
  return [
    { method: 'get', path: '/account/tokens/new', access: 'person', handle: async (context) => newTokenView(context, null) },
    {
      method: 'post',
      path: '/account/tokens',
      access: 'person',
      action: 'token.create',
      async handle({ session: { person }, url }, form) {
        const input = { name: form.get('name') ?? '', scopes: form.getAll('scopes'), days: Number(form.get('days')) };
        const { token, record } = await personalTokens.create(person.id, input);
        const { prefix, name, scopes } = record;
        return {
          kind: 'page',
          page: createdTokenView(record, token, `${publicUrl() ?? url.origin}/mcp`),
          audit: { token: prefix, name, scopes, days: input.days },
        };
      },
      invalidForm: async (context, form) => newTokenView(context, form),
    },
    {
      method: 'post',
      path: '/account/tokens/:token/revoke',
      access: 'person',
      action: 'token.revoke',
      async handle({ session: { person }, params }) {
        const { prefix, name } = await personalTokens.revoke(person.id, params.token ?? '');
        return { kind: 'redirect', to: `${accountPath}#tokens`, notice: `The token ${name} was revoked.`, audit: { token: prefix, name } };
      },
    },
  ];
}
