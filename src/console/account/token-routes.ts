/** Routes that create and revoke personal tokens. The account page lists the tokens. */
import type { PersonalTokens } from '../../people/personal-tokens.ts';
import { type ConsoleRoute, get, post } from '../frame/route.ts';
import { accountPath } from './account-path.ts';
import { createdTokenView, newTokenView } from './tokens-view.ts';

export function createTokenRoutes(personalTokens: PersonalTokens): readonly ConsoleRoute[] {
  return [
    get('/account/tokens/new', 'person', async (context) => newTokenView(context, null)),
    post(
      '/account/tokens',
      { access: 'person', action: 'token.create', invalidForm: async (context, form) => newTokenView(context, form) },
      async ({ session: { person }, origin }, form) => {
        const input = { name: form.get('name') ?? '', scopes: form.getAll('scopes'), days: Number(form.get('days')) };
        const { token, record } = await personalTokens.create(person.id, input);
        const { prefix, name, scopes } = record;
        return {
          kind: 'page',
          page: createdTokenView(record, token, `${origin}/mcp`),
          audit: { token: prefix, name, scopes, days: input.days },
        };
      },
    ),
    post('/account/tokens/:token/revoke', { access: 'person', action: 'token.revoke' }, async ({ session: { person }, params }) => {
      const { prefix, name } = await personalTokens.revoke(person.id, params.token ?? '');
      return { kind: 'redirect', to: `${accountPath}#tokens`, notice: `The token ${name} was revoked.`, audit: { token: prefix, name } };
    }),
  ];
}
