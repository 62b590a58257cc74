/** Runs `gateway batches` against a service with a real Temporal server. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { runCommand } from '../../src/cli/commands.ts';
import { adminToken, eventually, shareGateway, type TestGateway } from '../support/gateway.ts';
import { createMemoryVendor } from '../support/memory-vendor.ts';

const vendor = await createMemoryVendor();
afterAll(() => vendor.close());
const shared = shareGateway({ database: 'any', temporal: true, yaml: () => vendor.yaml });
beforeAll(async () => {
  const durable = shared().app.startDurable();
  await eventually(async () => expect(durable.state()).toBe('ready'));
});

/** Runs a command line and returns its exit status, output and errors. */
async function gateway(line: string): Promise<{ status: number; written: string; errors: string }> {
  let written = '';
  let errors = '';
  const output = {
    write(text: string) {
      written += text;
    },
    writeError(text: string) {
      errors += text;
    },
  };
  const argv = [...line.split(' '), '--url', shared().url];
  const status = await runCommand(argv, { GATEWAY_ADMIN_TOKEN: adminToken, GATEWAY_DATA_DIR: shared().dataDir }, output);
  return { status, written, errors };
}

async function lend(project: string): Promise<TestGateway> {
  const lent = await shared().withProject(project);
  await lent.admin('PUT', `/provision/teams/${project}/memory`, { batch_of: 2 });
  return lent;
}

async function say({ call }: TestGateway, text: string): Promise<void> {
  const body = { model: 'standard', messages: [{ role: 'user', content: text }], user: 'ann' };
  expect((await call('/v1/chat/completions', body)).status).toBe(200);
}

/** Returns the id of the project's only batch. Throws if the table doesn't list it in this state. */
async function findListed(project: string, state: string): Promise<string> {
  const { status, written } = await gateway(`batches list --project ${project} --state ${state}`);
  expect(status).toBe(0);
  const id = new RegExp(`^\\d{4}-\\S+Z +${project} +normal +${state} .* ([0-9a-f-]{36}) +http\\S+$`, 'm').exec(written)?.[1];
  if (id === undefined) throw new Error(`no batch is ${state}: ${written}`);
  return id;
}
const untilListed = (project: string, state: string): Promise<string> => eventually(() => findListed(project, state));

test('lists and shows a completed learning batch', async () => {
  const lent = await lend('cli-done');
  expect(await gateway('batches list --project cli-done')).toEqual({ status: 0, written: 'No batches.\n', errors: '' });
  await say(lent, 'I live in Oslo.');
  const id = await untilListed('cli-done', 'done');
  const listed = await gateway('batches list --project cli-done');
  expect(listed.written.split('\n')[0]).toMatch(
    /^CREATED +PROJECT +KIND +STATE +MESSAGES +CALLS +COST +WRITTEN +REPEATED +DROPPED +MERGED +FACTS +NEXT TRY +ERROR +ID +RUN$/,
  );
  // The cost of the last model call is stored a moment later, together with its call.
  const shown = await eventually(async () => {
    const result = await gateway(`batches show ${id} --project cli-done`);
    expect(result.written).toMatch(/^cost +\$0\.00003$/m);
    expect(result.written).toMatch(/^0 +[0-9a-f]{12} +done +2 +2 +\$0\.00003 +1 +0 +0 +0 +0 +- +-$/m);
    return result;
  });
  expect([shown.status, shown.errors]).toEqual([0, '']);
  expect(shown.written).toMatch(new RegExp(`^batch +${id}\nproject +cli-done\nkind +normal\nstate +done\n`));
  expect(shown.written).toMatch(new RegExp(`^workflow +learning/[0-9a-f-]{36}/batch/${id}$`, 'm'));
  expect(shown.written).toMatch(
    new RegExp(`^run +http://\\S+/namespaces/gateway-\\w+/workflows/learning%2F[0-9a-f-]{36}%2Fbatch%2F${id}$`, 'm'),
  );
  // The output contains the subject as a hash and no text of the conversation.
  expect(shown.written).not.toMatch(/ann|Oslo/);
  const requestCount = vendor.requests.length;
  // This command doesn't need a project.
  expect(await gateway(`batches show ${id}`)).toEqual(shown);
  const replayed = await gateway(`batches replay ${id}`);
  expect(replayed).toEqual({ status: 0, written: `The batch is done, so there is nothing to retry.\n\n${shown.written}`, errors: '' });
  expect((await gateway(`batches stop ${id}`)).errors).toBe(
    'gateway: only failed and waiting batches can be stopped, but this one is done\n',
  );
  const { written } = await gateway(`batches show ${id} --project cli-done --json`);
  expect(JSON.parse(written)).toMatchObject({ id, object: 'memory.batch', state: 'done', groups: [{ position: 0, state: 'done' }] });
  expect(vendor.requests).toHaveLength(requestCount);
});

test("replaying a batch that is already running doesn't restart it", async () => {
  const lent = await lend('cli-running');
  const held = vendor.hold('memories', 'Bergen');
  await say(lent, 'I live in Bergen.');
  const id = await untilListed('cli-running', 'running');
  const replayed = await gateway(`batches replay ${id} --project cli-running`);
  expect([replayed.status, replayed.errors]).toEqual([0, '']);
  expect(replayed.written).toMatch(
    new RegExp(`^Retrying the batch now\\.\n\nbatch +${id}\nproject +cli-running\nkind +normal\nstate +running$`, 'm'),
  );
  held.release();
  await untilListed('cli-running', 'done');
  expect((await gateway(`batches show ${id} --project cli-running`)).written).toMatch(/^0 +[0-9a-f]{12} +done +2 +\d+ +\S+ +1 +0 /m);
});

test('shows the full error message of a failing batch', async () => {
  const lent = await lend('cli-failed');
  // We don't retry a request that the vendor rejects indefinitely.
  const refusing = vendor.fail('memories', 'Bodø', () => ({ status: 422, message: 'this model will not read that' }));
  await say(lent, 'I live in Bodø.');
  const id = await eventually(async () => {
    // A change of settings ends the wait for the next try.
    await lent.admin('PUT', '/provision/teams/cli-failed', {});
    return findListed('cli-failed', 'failing');
  });
  const shown = await gateway(`batches show ${id} --project cli-failed`);
  expect(shown.written).toMatch(/^0 +[0-9a-f]{12} +waiting +2 +\d+ .* upstream_refused$/m);
  expect(shown.written).toMatch(/^group 0 +this model will not read that$/m);
  expect((await gateway('batches list --state failing')).written).toMatch(new RegExp(`^\\S+ +cli-failed +normal +failing .* ${id} `, 'm'));
  const stopped = await gateway(`batches stop ${id}`);
  expect([stopped.status, stopped.errors]).toEqual([0, '']);
  expect(stopped.written).toMatch(/^state +stopped$/m);
  expect((await gateway('batches list --project cli-failed --state failing')).written).toBe('No batches match.\n');
  refusing.end();
  const replayed = await gateway('batches replay --project cli-failed --state stopped');
  expect(replayed).toEqual({ status: 0, written: `Retrying 1 batch now.\n\n${id}\n`, errors: '' });
  await untilListed('cli-failed', 'done');
  expect((await gateway(`batches show ${id} --project cli-failed`)).written).not.toContain('will not read');
  expect((await gateway('batches replay --project cli-failed --state failed')).written).toBe(
    'The project cli-failed has no failed batches.\n',
  );
});

test.each([
  ['show', randomUUID(), 'no such batch'],
  ['replay', randomUUID(), 'no such batch'],
  ['replay', '7', 'id: must be a UUID'],
  ['show', '', "missing required argument 'id'"],
  ['list', '--state sleeping', '--state: '],
  ['list', 'extra', "too many arguments for 'list'."],
  ['replay', '', 'no batch: pass a batch id (see gateway batches list), or add --project <project> --state failed'],
  ['replay', '--state running', '--state: '],
])('prints a one-line error and exits with 1 for `batches %s %s`', async (command, word, sentence) => {
  const line = `batches ${command} ${word} --project acme`.replaceAll('  ', ' ');
  const { status, written, errors } = await gateway(line);
  expect([status, written]).toEqual([1, '']);
  expect(errors.startsWith(`gateway: ${sentence}`)).toBe(true);
  expect(errors.trimEnd().split('\n')).toHaveLength(1);
});

test("`batches list` exits with 1 if the project doesn't exist", async () => {
  expect(await gateway('batches list --project nobody')).toEqual({ status: 1, written: '', errors: 'gateway: no such project\n' });
  expect((await gateway('batches replay --project nobody --state failed')).errors).toBe('gateway: no such project\n');
});

test("doesn't show a batch of another project", async () => {
  const lent = await lend('cli-mine');
  await say(lent, 'I live in Hamar.');
  const id = await untilListed('cli-mine', 'done');
  for (const command of ['show', 'replay'])
    expect(await gateway(`batches ${command} ${id} --project acme`)).toEqual({
      status: 1,
      written: '',
      errors: 'gateway: no such batch\n',
    });
});
