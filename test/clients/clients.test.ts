/**
 * Tests the clients that `npm test` can afford, i.e. the ones in this clone, the current Python SDKs, and recorded
 * requests of coding agents. `npm run test-clients` tests all of them.
 */
import { beforeAll, describe, expect, test } from '@jest/globals';
import { shareGateway } from '../support/gateway.ts';
import { startTogether } from '../support/start-together.ts';
import { agents } from './agents.ts';
import { vendors } from './cases.ts';
import { type Client, clients, isInDependencies } from './clients.ts';
import { drive } from './drivers/driver.js';
import { failureNames, findWorse, hasFailures, runFailures } from './failures.ts';
import { installClient } from './install.ts';
import { readPage, readRecord, readRequests, replaceTables } from './record.ts';
import { type DriverLine, isAsDocumented, matrixYaml, type Outcomes, projectSettings, runClientHere, runClients } from './run-client.ts';

const lent = shareGateway({ database: 'any', yaml: (vendorUrl) => matrixYaml(vendorUrl) });
const currentPython = 'anthropic==2.* openai==3.*';

function isAffordable(client: Client): boolean {
  return isInDependencies(client) || [...client.packages].sort().join(' ') === currentPython;
}

beforeAll(async () => {
  const { project, admin } = lent();
  await admin('PUT', `/provision/teams/${project}`, projectSettings);
});

const affordable = clients.filter(isAffordable);
/**
 * Clients in this clone run in this process. One program runs the Python clients, which take longer to load than to
 * run.
 */
const groups = [affordable.filter(isInDependencies), affordable.filter((client) => !isInDependencies(client))];
const outcomesOfGroup = startTogether(groups, runGroup);
const concurrency = 6;

async function runGroup(group: readonly Client[]): Promise<ReadonlyMap<Client, Outcomes>> {
  const [first] = group;
  if (first === undefined) return new Map();
  const outcomes = isInDependencies(first)
    ? await Promise.all(group.map((client) => runClientHere(client, lent(), concurrency)))
    : await runClients(group, await installClient(first, 'several.py'), lent(), { concurrency });
  return new Map(group.map((client, index) => [client, outcomes[index] ?? { chat: {}, messages: {} }]));
}

async function outcomesOf(client: Client): Promise<Outcomes> {
  const [here, program] = await Promise.all(groups.map(outcomesOfGroup));
  return here?.get(client) ?? program?.get(client) ?? { chat: {}, messages: {} };
}

test.each(affordable.map((client) => [`${client.runtime} ${client.packages[0]}, ${client.api}`, client] as const))(
  'serves %s with vendors of both dialects',
  async (_title, client) => {
    const outcomes = await outcomesOf(client);
    const problems = Object.values(outcomes).flatMap((byCase) => Object.entries(byCase).filter(([, outcome]) => !isAsDocumented(outcome)));
    expect(problems).toEqual([]);
    const expected = ['plain', 'stream', 'tools', 'parallel-tools', 'structured', 'errors', 'retries'];
    for (const vendor of vendors) expect(Object.keys(outcomes[vendor])).toEqual(expect.arrayContaining(expected));
  },
);

const failing = affordable.filter((client) => isInDependencies(client) && hasFailures(client));
const failuresOf = startTogether(failing, async (client) => {
  const gateway = await lent().withProject(`failures-${failing.indexOf(client)}`);
  await gateway.admin('PUT', `/provision/teams/${gateway.project}`, projectSettings);
  return await runFailures(client, { vendor: lent().vendor, gateway }, async (job) => {
    const lines: DriverLine[] = [];
    await drive(client.driver, job, (line) => lines.push(line));
    return lines;
  });
});

test.each(failing.map((client) => [`${client.packages[0]}, ${client.api}`, client] as const))(
  'reports a vendor failure to %s at least as well as the vendor would',
  async (_title, client) => {
    const outcomes = await failuresOf(client);
    expect(Object.keys(outcomes)).toEqual(failureNames);
    expect(findWorse(outcomes)).toEqual([]);
    expect(outcomes.broken?.chat?.kind).toBe('error');
    expect(outcomes.limited?.messages).toEqual({ kind: 'complete', requests: 2 });
  },
);

/** How a complete event stream of the route ends. */
const endings = {
  '/v1/messages': /event: message_stop\ndata: .*\n\n$/,
  '/v1/chat/completions': /data: \[DONE\]\n\n$/,
  '/v1/responses': /event: response\.completed\ndata: .*\n\n$/,
} as const;

describe.each(agents.map(({ name }) => name))('recorded requests of %s', (name) => {
  test.each(vendors)('returns a complete response from a %s vendor', async (vendor) => {
    const { url, key } = lent();
    const requests = await readRequests(name);
    expect(requests.length).toBeGreaterThan(0);
    for (const { method, path, headers, body } of requests) {
      const sent = { ...(body as { stream?: boolean }), model: `${vendor}/echo` };
      const response = await fetch(url + path, {
        method,
        headers: { ...headers, authorization: `Bearer ${key}` },
        body: JSON.stringify(sent),
      });
      const text = await response.text();
      expect([response.status, text.slice(0, 300)]).toEqual([200, expect.any(String)]);
      const route = path.split('?')[0] as keyof typeof endings;
      if (sent.stream === true) expect(text).toMatch(endings[route]);
      expect(text).toMatch(/said/);
    }
  });
});

test('generates docs/clients.md from the recorded matrix (npm run test-clients)', async () => {
  const page = await readPage();
  expect(page).toBe(replaceTables(page, await readRecord()));
});
