/** Stops the gateway while an MCP client is listening for changes to the list of tools. */
import { expect, test } from '@jest/globals';
import { withGateway } from '../support/gateway.ts';
import { addPerson, issueToken } from './people.ts';

test('shuts down without waiting for a listening client', async () => {
  // If we waited for the client, this would take a minute, which is longer than the test may run.
  const stream = await withGateway({ database: 'any', graceMs: 60_000 }, async (gateway) => {
    const token = await issueToken(gateway, await addPerson(gateway, []));
    const response = await fetch(`${gateway.url}/mcp`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        authorization: `Bearer ${token}`,
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': 'subscriptions/listen',
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'subscriptions/listen',
        params: {
          notifications: { toolsListChanged: true },
          _meta: {
            'io.modelcontextprotocol/protocolVersion': '2026-07-28',
            'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
            'io.modelcontextprotocol/clientCapabilities': {},
          },
        },
      }),
    });
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream']);
    return response;
  });
  expect(await stream.text()).toContain('notifications/subscriptions/acknowledged');
});
