/** Runs the gateway as a worker of somebody else's Node cluster, like pm2 does in its cluster mode. */
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { activeModel, createProcesses, firstKeyOf, root, shortLived } from '../support/gateway-process.ts';
import { unusedPort } from '../support/unused-port.ts';

const processes = createProcesses();
afterAll(processes.stopAll);

const settings = { exec: join(root, 'src', 'main.ts'), execArgv: shortLived, args: ['start'] };
const parent = `
  const cluster = require('node:cluster');
  cluster.setupPrimary(${JSON.stringify(settings)});
  cluster.fork();
`;

test("serves calls as a worker in another program's cluster", async () => {
  const { home, env } = await processes.homeWithAnyDatabase();
  const port = await unusedPort();
  const program = [process.execPath, '-e', parent];
  const gateway = await processes.start('start', { home, env: { ...env, PORT: String(port) }, program });
  expect([gateway.stderr(), gateway.url]).toEqual(['', `http://127.0.0.1:${port}`]);
  expect(await activeModel(gateway, firstKeyOf(gateway) ?? '')).toBe('demo/echo');
});
