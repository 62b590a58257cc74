/** Tests that switching to another project keeps the page and its filters. */
import { beforeAll, expect, test } from '@jest/globals';
import { systemClock } from '../../src/core/time.ts';
import { createMembers } from '../../src/people/members.ts';
import { type SignedIn, signIn } from '../support/console.ts';
import { shareGateway } from '../support/gateway.ts';
import { decodeEntities } from '../support/page-text.ts';

const gateway = shareGateway({ database: 'any' });
let person: SignedIn;

/** The person owns `acme` and is a member of `beta`. */
beforeAll(async () => {
  const { database } = gateway();
  person = await signIn(gateway(), 'owner');
  const beta = await gateway().withProject('beta');
  const project = await beta.app.projects.findBySlug('beta');
  await createMembers({ database, clock: systemClock }).put(project?.id ?? '', person.personId, 'member');
});

/** Returns where the switcher of a page of `acme` leads in `beta`. */
async function pageInBeta(path: string): Promise<string | undefined> {
  const page = await (await person.get(`/console/p/acme${path}`)).text();
  const [, href] = /<a href="\/console\/p\/beta([^"]*)"/.exec(page.split('aria-label="Projects"')[1] ?? '') ?? [];
  return href === undefined ? undefined : decodeEntities(href);
}

const id = '01900000-0000-7000-8000-000000000001';

test.each([
  // Lists and views keep their filters and the period.
  ['/calls?range=7d&result=error&model=one%2Fecho&subject=ann', '/calls?range=7d&result=error&model=one%2Fecho&subject=ann'],
  ['/calls/refused?range=7d&source=app', '/calls/refused?range=7d&source=app'],
  ['/explore?from=2026-11-01&to=2026-11-03&group=source', '/explore?from=2026-11-01&to=2026-11-03&group=source'],
  ['/memory?state=closed&subject=ann+%26+bob', '/memory?state=closed&subject=ann+%26+bob'],
  ['/memory/recall?q=tea', '/memory/recall?q=tea'],
  ['/pages?subject=ann', '/pages?subject=ann'],
  ['/end-users/ann%2Fbob', '/end-users/ann%2Fbob'],
  ['/audit?action=key.issue', '/audit?action=key.issue'],
  [`/calls?subject=${id}&task=${id}`, `/calls?subject=${id}&task=${id}`],
  // The position in a list, keys and calls belong to the project.
  [`/calls?range=7d&before=${id}`, '/calls?range=7d'],
  ['/explore?range=7d&rows=all', '/explore?range=7d'],
  ['/calls?range=7d&key=abcdefgh&not_key=hgfedcba', '/calls?range=7d'],
  [`/playground?from=${id}&model=one%2Fecho`, '/playground?model=one%2Fecho'],
  // A page about one thing leads to the list of such things.
  [`/calls/${id}`, '/calls'],
  [`/conversations/${id}?view=calls`, '/conversations'],
  ['/unknown?x=1', '/overview'],
  // Members may not open pages for owners.
  ['/keys/new', '/keys'],
  ['/routing/edit', '/routing'],
  ['/erase?subject=ann', '/overview'],
])('switching projects on %s leads to %s', async (path, expected) => {
  expect(await pageInBeta(path)).toBe(expected);
});

test('switching projects opens the same page of the other project', async () => {
  const path = await pageInBeta('/memory?state=closed&kind=fact');
  const page = await (await person.get(`/console/p/beta${path}`)).text();
  expect(page).toMatch(/<option value="closed" selected/);
});

test("switching projects after a rejected form drops the form's values", async () => {
  const page = await (await person.post('/console/p/acme/keys?x=1', { name: '' })).text();
  expect(page).toContain('<a href="/console/p/beta/keys"');
});
