/**
 * Signs people in with a one-time link. Opening the link just shows a button, and only pressing the button uses up the
 * link.
 */
import { GatewayError } from '../../core/errors.ts';
import type { People } from '../../people/people.ts';
import { signInLinkPath } from '../../people/sign-in-links.ts';
import { type ActionRoute, type ConsoleRoute, get, type PageRoute, post } from '../frame/route.ts';
import { linkView, unusableLink } from './pages.ts';
import type { StartSession } from './start-session.ts';

export function createLinkRoutes({ links }: Pick<People, 'links'>, startSession: StartSession): readonly ConsoleRoute[] {
  const page: PageRoute = get(signInLinkPath, 'anyone', async (context) => {
    const token = context.url.searchParams.get('token') ?? '';
    const link = await links.find(token);
    return link ? linkView(context, { token, person: link.person }) : unusableLink();
  });
  const use: ActionRoute = post(
    signInLinkPath,
    {
      access: 'anyone',
      action: null,
      invalidForm: async (context, form, errors) => {
        const token = form.get('token') ?? '';
        const link = await links.find(token);
        if (!link) return unusableLink();
        return linkView(context, { token, person: link.person, rejected: { form, errors } });
      },
    },
    async (context, form) => {
      const [email, name, password] = [form.get('email') ?? '', form.get('name') ?? '', form.get('password') ?? ''];
      const person = await links.use(form.get('token') ?? '', { email, name, password }).catch((error: unknown) => {
        if (error instanceof GatewayError && error.code === 'not_found') return null;
        throw error;
      });
      if (!person) return { kind: 'page', page: unusableLink() };
      return { kind: 'redirect', to: '/console', setCookies: await startSession(context, person, 'link', null) };
    },
  );
  return [page, use];
}
