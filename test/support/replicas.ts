/**
 * Runs several processes of the real program with one PostgreSQL server and one Temporal server. Users chat with them,
 * and we check that every statement is learned exactly once.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from '@jest/globals';
import type { Database } from '../../src/db/database.ts';
import { migrate } from '../../src/db/migrate.ts';
import { createTemporal, type Temporal } from '../../src/temporal/client/temporal.ts';
import { copyTestBundle, eventually, jsonOf } from './gateway.ts';
import { createProcesses, type GatewayProcess } from './gateway-process.ts';
import { createTestDatabase, openTestDatabase } from './postgres.ts';
import { createScriptedVendor } from './scripted-vendor/server.ts';
import { createTestLog } from './temporal.ts';
import { createTemporalServer, type TemporalServer } from './temporal-server.ts';

const namespace = 'replicas';

export interface Replicas {
  readonly database: Database;
  readonly server: TemporalServer;
  readonly temporal: Temporal;
  start(command: 'serve' | 'worker'): Promise<GatewayProcess>;
  stopAll(): Promise<void>;
}

/** Responses are slow, so that a kill interrupts running calls. */
const yamlOf = (vendorUrl: string): string => `
providers: { one: { base_url: ${vendorUrl}/v1, api_key: any, dialect: chat } }
tiers: { trivial: [one/echo+slow-200] }
memory: { idle_minutes: 0.02, retry: { first_minutes: 0.02, factor: 2, longest_minutes: 1 } }
`;

/** Starts the database, vendor and Temporal server. The caller has to stop them with `stopAll`. */
export async function createReplicas(): Promise<Replicas> {
  const processes = createProcesses();
  const testDatabase = await createTestDatabase();
  const database = openTestDatabase(testDatabase.url, 2);
  await migrate(database);
  const vendor = await createScriptedVendor();
  const server = await createTemporalServer();
  const temporal = createTemporal({ address: server.address, namespace, logger: createTestLog().logger });
  return {
    database,
    server,
    temporal,
    async start(command) {
      const home = await processes.home('empty');
      await writeFile(join(home, 'gateway.yaml'), yamlOf(vendor.url));
      const env = {
        DATABASE_URL: testDatabase.url,
        GATEWAY_TEMPORAL: 'on',
        TEMPORAL_ADDRESS: server.address,
        TEMPORAL_NAMESPACE: namespace,
        TEMPORAL_CREATE_NAMESPACE: 'true',
      };
      await mkdir(join(home, 'data'));
      await copyTestBundle(join(home, 'data'));
      const gateway = await processes.start(command, { home, env });
      expect(gateway.stderr()).toBe('');
      return gateway;
    },
    async stopAll() {
      await processes.stopAll();
      await temporal.close();
      await server.remove();
      await vendor.close();
      await database.close();
      await testDatabase.drop();
    },
  };
}

export interface Fact {
  readonly text: string;
  readonly subject: string | null;
}

export interface Users {
  /** What the users have stated so far. */
  readonly facts: readonly Fact[];
  readonly projectId: string;
  /** Sends a new statement and expects a complete response. Users and processes take turns. */
  chat(): Promise<void>;
  /**
   * Chats in a loop until `work` is done, and then lets memory learn the last messages without waiting for a full batch.
   * The default pause between messages is 400 ms, because each message costs CPU time in every process until it's
   * learned.
   */
  chatDuring<Result>(work: () => Promise<Result>, pauseMs?: number): Promise<Result>;
}

/**
 * Creates users of the project `default`, which learns in small batches. One in five has no subject and writes to
 * memory explicitly. In this case, every call is a conversation of its own.
 */
export async function createUsers({ database }: Replicas, serving: readonly [GatewayProcess, ...GatewayProcess[]]): Promise<Users> {
  const [first] = serving;
  await first.admin('PUT', '/provision/teams/default', {});
  const learnInBatchesOf = (messages: number) => first.admin('PUT', '/provision/teams/default/memory', { batch_of: messages });
  const { key } = await jsonOf<{ key: string }>(first.admin('POST', '/provision/teams/default/keys', { name: 'users' }));
  const [project] = await database.query<{ id: string }>(`select id from projects where slug = 'default'`);
  const facts: Fact[] = [];
  const users: Users = {
    facts,
    projectId: project?.id ?? '',
    async chat() {
      const n = facts.length;
      const fact = { text: `I keep parcel ${n} in shed ${n}.`, subject: n % 5 === 0 ? null : `user-${n % 12}` };
      facts.push(fact);
      const body = { model: 'one/echo', messages: [{ role: 'user', content: fact.text }] };
      const headers: Record<string, string> =
        fact.subject === null ? { 'x-gateway-memory': 'write' } : { 'x-gateway-memory-subject': fact.subject };
      const response = await (serving[n % serving.length] ?? first).call(key, '/v1/chat/completions', body, headers);
      expect([response.status, await response.text()]).toEqual([200, expect.stringContaining(fact.text)]);
    },
    async chatDuring(work, pauseMs = 400) {
      await learnInBatchesOf(4);
      let isDone = false;
      const chatting = (async () => {
        while (!isDone) {
          await users.chat();
          await new Promise((resolve) => setTimeout(resolve, pauseMs));
        }
      })();
      try {
        return await work();
      } finally {
        isDone = true;
        await chatting;
        await learnInBatchesOf(1);
      }
    },
  };
  return users;
}

const factRows = (facts: readonly Fact[]): string[] => facts.map(({ text, subject }) => `${subject}: ${text}`).toSorted();

/**
 * Waits until nothing is pending any more. Then it checks that everything was done exactly once. Workflows in
 * `entities` never end, so they don't count as pending.
 */
export async function expectLearnedOnce({ database, temporal }: Replicas, { facts }: Users, entities: readonly string[]): Promise<void> {
  const idsOf = async (query: string): Promise<string[]> => {
    const ids: string[] = [];
    for await (const { workflowId } of temporal.client.workflow.list({ query })) ids.push(workflowId);
    return ids.toSorted();
  };
  await eventually(async () => {
    expect(await database.query(`select state, count(*)::integer as n from conversations group by state`)).toEqual([
      { state: 'read', n: expect.any(Number) },
    ]);
    expect(await database.query(`select id from conversations where batched_messages < messages`)).toEqual([]);
    expect(await database.query(`select distinct state from memory_batches`)).toEqual([{ state: 'done' }]);
    const counts = await database.query<{ messages: number }>(`select sum(messages)::integer as messages from conversations`);
    expect(counts).toEqual([{ messages: 2 * facts.length }]);
    expect(await database.query(`select id from outbox`)).toEqual([]);
    expect(await idsOf('ExecutionStatus = "Running"')).toEqual(entities.toSorted());
  }, 300_000);
  expect(await database.query(`select distinct state from memory_batch_groups`)).toEqual([{ state: 'done' }]);
  const batched = `select sum(to_position - from_position)::integer as messages from memory_batch_ranges`;
  expect(await database.query(batched)).toEqual([{ messages: 2 * facts.length }]);
  const memories = await database.query<Fact>(`select text, subject from memory_items`);
  expect(factRows(memories)).toEqual(factRows(facts));
  expect(await idsOf('ExecutionStatus IN ("Failed", "Terminated", "TimedOut", "Canceled")')).toEqual([]);
}
