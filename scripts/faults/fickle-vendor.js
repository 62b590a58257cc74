/**
 * A vendor that works until we turn on a fault. It forwards requests to the scripted vendor, and during a fault it
 * replaces their model with one that fails. Each provider has its own path (`<url>/<provider>/v1`), so we can break one
 * provider at a time.
 */
import { once } from 'node:events';
import { createServer, request as httpRequest } from 'node:http';
import { pipeline } from 'node:stream';
import { json } from 'node:stream/consumers';

/** @param {string} scriptedVendorUrl */
export async function createFickleVendor(scriptedVendorUrl) {
  /** @type {Map<string, string>} by provider, the model of the scripted vendor that fails */
  const faults = new Map();
  const server = createServer(async (request, response) => {
    const [, provider = '', ...path] = (request.url ?? '').split('/');
    const body = /** @type {{ model: string }} */ (await json(request).catch(() => null));
    if (body === null) return response.destroy();
    const model = faults.get(provider) ?? body.model;
    const headers = { authorization: 'Bearer any', 'content-type': 'application/json' };
    const forwarded = httpRequest(`${scriptedVendorUrl}/${path.join('/')}`, { method: 'POST', headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      // If the scripted vendor aborts its response, `pipeline` does the same to ours.
      pipeline(answer, response, () => undefined);
    });
    forwarded.on('error', () => response.destroy());
    response.on('close', () => forwarded.destroy());
    forwarded.end(JSON.stringify({ ...body, model }));
    return undefined;
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  return {
    url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`,
    /** @param {string} provider @param {string | null} model null ends the fault */
    fail(provider, model) {
      if (model === null) faults.delete(provider);
      else faults.set(provider, model);
    },
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}
