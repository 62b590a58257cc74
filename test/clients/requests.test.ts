/** Requests that coding agents sent, recorded by `npm run test-clients`, get a complete response from vendors of both dialects. */
import { describe, expect, test } from '@jest/globals';
import { shareGateway } from '../support/gateway.ts';
import { agents } from './agents.ts';
import { readRequests } from './record.ts';
import { matrixYaml, projectSettings, vendors } from './run-client.ts';

const lent = shareGateway({ yaml: matrixYaml });

/** What a complete event stream of the route ends with. */
const endings = {
  '/v1/messages': /event: message_stop\ndata: .*\n\n$/,
  '/v1/chat/completions': /data: \[DONE\]\n\n$/,
  '/v1/responses': /event: response\.completed\ndata: .*\n\n$/,
} as const;

describe.each(agents.map(({ name }) => name).filter((name) => name !== 'Codex CLI'))('%s', (name) => {
  test.each(vendors)('its requests are answered by a %s vendor', async (vendor) => {
    const { url, key, project, admin } = lent();
    await admin('PUT', `/provision/teams/${project}`, projectSettings);
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
