/** Runs clients, agents and servers against a service in a separate process, and records the result. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createKey, createPrograms } from '../../scripts/programs.js';
import { createScriptedVendor, type ScriptedVendor } from '../support/scripted-vendor/server.ts';
import { finalText, startAgentVendor } from './agent-vendor.ts';
import { agents, agentTask, agentYaml, runAgent } from './agents.ts';
import { type Client, clients } from './clients.ts';
import { findWorse, hasFailures, runFailures } from './failures.ts';
import { installClient, nameOf } from './install.ts';
import { type ClientRecord, readRecord, type TaskRecord, writeRecord, writeRequests } from './record.ts';
import { anonymize, startRequestRecorder } from './request-recorder.ts';
import { isAsDocumented, matrixYaml, projectSettings, runClient, runDriver, type Target } from './run-client.ts';
import { callServer } from './server-routes.ts';
import { servers, serverYaml } from './servers.ts';

/** The machine has two cores, and an installation waits for the network while another client runs. */
const concurrency = 2;

/**
 * Runs the rows that contain one of `names`, or everything without names. The other rows keep their recorded results.
 * Returns whether everything that ran did what docs/clients.md promises.
 */
export async function recordMatrix(names: readonly string[]): Promise<boolean> {
  const isChosen = (title: string): boolean => names.length === 0 || names.some((name) => title.includes(name));
  const chosen = clients.filter((client) => isChosen(titleOf(client)));
  const before = await readRecord();
  const ranClients = chosen.length === 0 ? [] : await runClients(chosen);
  const ranAgents = await runAgents(agents.filter(({ name }) => isChosen(name)));
  const ranServers = await runServers(servers.filter(({ name }) => isChosen(name)));
  const byTitle = new Map([...before.clients, ...ranClients].map((record) => [titleOf(record), record]));
  const merge = (old: readonly TaskRecord[], ran: readonly TaskRecord[], order: readonly { readonly name: string }[]): TaskRecord[] =>
    order.flatMap(({ name }) => ran.find((record) => record.name === name) ?? old.find((record) => record.name === name) ?? []);
  await writeRecord({
    recordedOn: new Date().toISOString().slice(0, 10),
    clients: clients.flatMap((client) => byTitle.get(titleOf(client)) ?? []),
    agents: merge(before.agents, ranAgents, agents),
    servers: merge(before.servers, ranServers, servers),
  });
  const results = [...ranAgents, ...ranServers].flatMap((record) => Object.values(record.results));
  return ranClients.every(isGood) && results.every((result) => result === 'ok');
}

async function runClients(chosen: readonly Client[]): Promise<ClientRecord[]> {
  const [vendor, failingVendor] = await Promise.all([createScriptedVendor(), createScriptedVendor()]);
  try {
    return await withService(matrixYaml(vendor.url, failingVendor.url), (target) => runAll(chosen, target, failingVendor));
  } finally {
    await Promise.all([vendor.close(), failingVendor.close()]);
  }
}

async function runAll(chosen: readonly Client[], target: Target, vendor: ScriptedVendor): Promise<ClientRecord[]> {
  const waiting = [...chosen];
  const records: ClientRecord[] = [];
  const work = async (): Promise<void> => {
    for (let client = waiting.shift(); client !== undefined; client = waiting.shift()) {
      const record = await runOne(client, target, vendor);
      records.push(record);
      report(titleOf(client), isGood(record) ? 'ok' : record);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, work));
  return records;
}

async function runOne(client: Client, target: Target, vendor: ScriptedVendor): Promise<ClientRecord> {
  const { runtime, api, packages } = client;
  const common = { name: nameOf(packages[0]), runtime, api, packages };
  try {
    const program = await installClient(client);
    const outcomes = await runClient(client, program, target);
    const ran = { ...common, version: await program.version(), outcomes };
    if (!hasFailures(client)) return ran;
    // Circuit breakers belong to a project, so another client's failures don't open this one's.
    const slug = `failures-${titleOf(client)
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, '-')}`.slice(0, 60);
    const settings = { ...projectSettings, ...(client.readsVendorCodes && { error_codes: 'vendor' }) };
    const gateway = { url: target.url, key: await createKey(target.url, slug, settings) };
    return { ...ran, failures: await runFailures(client, { vendor, gateway }, (job) => runDriver(program, [job])) };
  } catch (error) {
    // The row shows the problem, and the other clients still run.
    return { ...common, version: null, outcomes: null, problem: messageOf(error) };
  }
}

async function runAgents(chosen: typeof agents): Promise<TaskRecord[]> {
  if (chosen.length === 0) return [];
  const vendor = await startAgentVendor();
  try {
    return await withService(agentYaml(vendor.url), async ({ url, key }) => {
      const records: TaskRecord[] = [];
      for (const agent of chosen) {
        const recorder = await startRequestRecorder(url);
        const record = await runAgent(agent, { url: recorder.url, key });
        await recorder.close();
        await writeRequests(
          agent.name,
          recorder.requests.map((request) => anonymize(request, [agentTask, finalText])),
        );
        records.push(record);
        report(agent.name, record.results);
      }
      return records;
    });
  } finally {
    await vendor.close();
  }
}

async function runServers(chosen: typeof servers): Promise<TaskRecord[]> {
  const records: TaskRecord[] = [];
  for (const { name, start } of chosen) {
    const record = await runServer(start).catch((error: unknown) => ({ version: 'not run', results: { start: messageOf(error) } }));
    records.push({ ...record, name });
    report(name, record.results);
  }
  return records;
}

async function runServer(start: (typeof servers)[number]['start']) {
  const vendor = await createScriptedVendor();
  try {
    const server = await start(vendor.url);
    return await withService(serverYaml(server), (target) => callServer(server, target)).finally(server.close);
  } finally {
    await vendor.close();
  }
}

/** Runs a service with this gateway.yaml and a project's key. */
async function withService<Result>(yaml: string, work: (target: Target) => Promise<Result>): Promise<Result> {
  const programs = createPrograms();
  const folder = await mkdtemp(join(tmpdir(), 'gateway-clients-'));
  try {
    const config = join(folder, 'gateway.yaml');
    await writeFile(config, yaml);
    const { url } = await programs.start('start', {
      env: { GATEWAY_CONFIG: config, GATEWAY_DATA_DIR: join(folder, 'data'), LOG_LEVEL: 'silent' },
    });
    return await work({ url, key: await createKey(url, 'clients', projectSettings) });
  } finally {
    await programs.stopAll();
    await rm(folder, { recursive: true, force: true });
  }
}

function titleOf({ runtime, api, packages }: Pick<Client, 'runtime' | 'api' | 'packages'>): string {
  return `${runtime} ${packages[0]} ${api}`;
}

function isGood(record: ClientRecord): boolean {
  const { outcomes, failures = {} } = record;
  const client = clients.find((each) => titleOf(each) === titleOf(record));
  if (findWorse(failures, client?.exceptions).length > 0) return false;
  return outcomes !== null && Object.values(outcomes).every((byCase) => Object.values(byCase).every(isAsDocumented));
}

function report(title: string, result: unknown): void {
  process.stdout.write(`${title}: ${typeof result === 'string' ? result : JSON.stringify(result)}\n`);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
