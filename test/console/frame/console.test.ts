import { describe, expect, test } from '@jest/globals';
import { signIn } from '../../support/console.ts';
import { shareGateway } from '../../support/gateway.ts';

const gateway = shareGateway({});

describe('console', () => {
  test('303 to the sign-in page, which returns to the page that was asked for', async () => {
    const response = await fetch(`${gateway().url}/console/p/acme/calls?model=a`, { redirect: 'manual' });
    expect([response.status, response.headers.get('location')]).toEqual([
      303,
      '/console/sign-in?next=%2Fconsole%2Fp%2Facme%2Fcalls%3Fmodel%3Da',
    ]);
  });

  test('404 as a page with the navigation for a person', async () => {
    const person = await signIn(gateway(), 'owner');
    const response = await person.get('/console/p/acme/unknown');
    expect(response.status).toBe(404);
    expect(response.headers.get('content-security-policy')).toContain("default-src 'none'");
    expect(await response.text()).toContain('<h1>Not found</h1>');
  });
});
