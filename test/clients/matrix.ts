/** Runs clients, agents and servers against a service in a separate process, and records the results. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createKey, createPrograms } from '../../scripts/programs.js';
import { createScriptedVendor, type ScriptedVendor } from '../support/scripted-vendor/server.ts';
import { finalText, startAgentVendor } from './agent-vendor.ts';
import { agents, agentTask, agentYaml, runAgent } from './agents.ts';
import { vendors } from './cases.ts';
import { type Client, clients } from './clients.ts';
import { findWorse, hasFailures, runFailures } from './failures.ts';
import { installClient, nameOf } from './install.ts';
import { type ClientRecord, type MatrixRecord, type TaskRecord, updateRecord, writeRequests } from './record.ts';
import { anonymize, startRequestRecorder } from './request-recorder.ts';
import { isAsDocumented, matrixYaml, projectSettings, runClient, runDriver, type Target } from './run-client.ts';
import { callServer } from './server-routes.ts';
import { servers, serverYaml } from './servers.ts';

/**
 * This may be more than the machine has cores, because clients mostly wait: for packages, timeouts and their next
 * retry.
 */
const concurrency = 4;

/** What the rows that have run so far returned. */
interface Ran {
  readonly clients: ClientRecord[];
  readonly agents: TaskRecord[];
  readonly servers: TaskRecord[];
}

/**
 * Runs the rows that contain one of `names`, or everything without names. The other rows keep their recorded results.
 * We write the record after each row, so that a run that is interrupted keeps the results that it has. Returns whether
 * everything that ran did what docs/clients.md promises.
 */
export async function recordMatrix(names: readonly string[]): Promise<boolean> {
  const isChosen = (title: string): boolean => names.length === 0 || names.some((name) => title.includes(name));
  const ran: Ran = { clients: [], agents: [], servers: [] };
  const problems: string[] = [];
  let written = Promise.resolve();
  const report = (title: string, found: readonly string[]): void => {
    process.stdout.write(`${title}: ${found.length === 0 ? 'ok' : found.join('; ')}\n`);
    problems.push(...found.map((problem) => `${title}: ${problem}`));
    written = written.then(() => updateRecord((record) => mergeRecords(record, ran)));
  };
  const phases = {
    clients: () =>
      runClients(
        clients.filter((client) => isChosen(titleOf(client))),
        (record) => {
          ran.clients.push(record);
          report(titleOf(record), problemsOfClient(record));
        },
      ),
    agents: () =>
      runAgents(
        agents.filter(({ name }) => isChosen(name)),
        (record) => {
          ran.agents.push(record);
          report(record.name, problemsOfTasks(record));
        },
      ),
    servers: () =>
      runServers(
        servers.filter(({ name }) => isChosen(name)),
        (record) => {
          ran.servers.push(record);
          report(record.name, problemsOfTasks(record));
        },
      ),
  };
  for (const [phase, run] of Object.entries(phases)) await run().catch((error: unknown) => report(phase, [messageOf(error)]));
  await written;
  const count = ran.clients.length + ran.agents.length + ran.servers.length;
  const summary = problems.length === 0 ? 'all as documented' : 'except for these problems, all as documented:';
  process.stdout.write(`\n${[`${count} rows ran, ${summary}`, ...problems].join('\n- ')}\n`);
  return problems.length === 0;
}

/** Returns the record with the rows that ran in place of the earlier ones, in the order of the table. */
function mergeRecords(before: MatrixRecord, ran: Ran): MatrixRecord {
  const byTitle = new Map([...before.clients, ...ran.clients].map((record) => [titleOf(record), record]));
  const merge = (old: readonly TaskRecord[], recent: readonly TaskRecord[], order: readonly { readonly name: string }[]): TaskRecord[] =>
    order.flatMap(({ name }) => recent.find((record) => record.name === name) ?? old.find((record) => record.name === name) ?? []);
  return {
    clients: clients.flatMap((client) => byTitle.get(titleOf(client)) ?? []),
    agents: merge(before.agents, ran.agents, agents),
    servers: merge(before.servers, ran.servers, servers),
  };
}

async function runClients(chosen: readonly Client[], onRecord: (record: ClientRecord) => void): Promise<void> {
  if (chosen.length === 0) return;
  const [vendor, failingVendor] = await Promise.all([createScriptedVendor(), createScriptedVendor()]);
  try {
    await withService(matrixYaml(vendor.url, failingVendor.url), async (target) => {
      const waiting = [...chosen];
      const work = async (): Promise<void> => {
        for (let client = waiting.shift(); client !== undefined; client = waiting.shift()) {
          onRecord(await runOne(client, target, failingVendor));
        }
      };
      await Promise.all(Array.from({ length: concurrency }, work));
    });
  } finally {
    await Promise.all([vendor.close(), failingVendor.close()]);
  }
}

async function runOne(client: Client, target: Target, vendor: ScriptedVendor): Promise<ClientRecord> {
  const { runtime, api, packages } = client;
  const common = { name: nameOf(packages[0]), runtime, api, packages, recordedOn: today() };
  try {
    const program = await installClient(client);
    const outcomes = await runClient(client, program, target);
    const ran = { ...common, version: await program.version(), outcomes };
    if (!hasFailures(client)) return ran;
    // Circuit breakers belong to a project, so another client's failures don't open this one's.
    const slug = `failures-${titleOf(client)
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, '-')}`.slice(0, 60);
    const settings = { ...projectSettings, ...(client.needsVendorCodes && { error_codes: 'vendor' }) };
    const gateway = { url: target.url, key: await createKey(target.url, slug, settings) };
    return { ...ran, failures: await runFailures(client, { vendor, gateway }, (job) => runDriver(program, [job])) };
  } catch (error) {
    // The row shows the problem, and the other clients still run.
    return { ...common, version: null, outcomes: null, problem: messageOf(error) };
  }
}

async function runAgents(chosen: typeof agents, onRecord: (record: TaskRecord) => void): Promise<void> {
  if (chosen.length === 0) return;
  const vendor = await startAgentVendor();
  try {
    await withService(agentYaml(vendor.url), async ({ url, key }) => {
      for (const agent of chosen) {
        const recorder = await startRequestRecorder(url);
        const record = await runAgent(agent, { url: recorder.url, key });
        await recorder.close();
        // If the agent couldn't be installed, the earlier requests are still good for the tests.
        const requests = recorder.requests.map((request) => anonymize(request, [agentTask, finalText]));
        if (requests.length > 0) await writeRequests(agent.name, requests);
        onRecord({ ...record, recordedOn: today() });
      }
    });
  } finally {
    await vendor.close();
  }
}

async function runServers(chosen: typeof servers, onRecord: (record: TaskRecord) => void): Promise<void> {
  for (const { name, start } of chosen) {
    const record = await runServer(start).catch((error: unknown) => ({ version: 'not run', results: { start: messageOf(error) } }));
    onRecord({ ...record, name, recordedOn: today() });
  }
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

function today(): string {
  return new Date().toISOString().slice(0, 10);
}

function titleOf({ runtime, api, packages }: Pick<Client, 'runtime' | 'api' | 'packages'>): string {
  return `${runtime} ${packages[0]} ${api}`;
}

/** Describes everything that docs/clients.md doesn't promise. */
function problemsOfClient({ outcomes, problem = 'not run', failures = {} }: ClientRecord): string[] {
  if (outcomes === null) return [problem];
  const differences = vendors.flatMap((vendor) =>
    Object.entries(outcomes[vendor])
      .filter(([, outcome]) => !isAsDocumented(outcome))
      .map(([name, outcome]) => `${name}, ${vendor} vendor: ${outcome}`),
  );
  return [...differences, ...findWorse(failures)];
}

function problemsOfTasks({ results }: TaskRecord): string[] {
  return Object.entries(results)
    .filter(([, result]) => result !== 'ok')
    .map(([task, result]) => `${task}: ${result}`);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
