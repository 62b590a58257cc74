/**
 * The benchmark's floor. It shows how much CPU time a gateway would need that is built from the same parts (Express,
 * undici) but only forwards requests. This separate program forwards the path, the body and some of the headers, and
 * returns the response unchanged. Pass the vendor's address as the argument. The program prints the address on which it
 * listens.
 */
import { createServer, IncomingMessage, ServerResponse } from 'node:http';
import process from 'node:process';
import express from 'express';
import { Pool } from 'undici';

const pool = new Pool(process.argv[2] ?? '', { pipelining: 1 });
const app = express().disable('x-powered-by').disable('etag');

app.post('/*path', (request, response) => {
  /** @type {Buffer[]} */
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', () => {
    const [only] = chunks;
    const body = only && chunks.length === 1 ? only : Buffer.concat(chunks);
    const headers = {
      authorization: 'Bearer vendor-key',
      'content-type': request.headers['content-type'] ?? 'application/json',
      accept: request.headers['accept'] ?? '*/*',
    };
    pool.dispatch({ path: request.url, method: 'POST', headers, body }, createHandler(response));
  });
});

/**
 * @param {ServerResponse} response
 * @returns {import('undici').Dispatcher.DispatchHandler}
 */
function createHandler(response) {
  return {
    onRequestStart(controller) {
      response.once('close', () => {
        if (!response.writableFinished) controller.abort(new Error('the caller has disconnected'));
      });
    },
    onResponseStart(_controller, status, headers) {
      // Drop the hop-by-hop headers, because Node sets its own.
      const { connection: _hop, 'keep-alive': _time, 'transfer-encoding': _framing, ...kept } = headers;
      response.writeHead(status, /** @type {import('node:http').OutgoingHttpHeaders} */ (kept));
    },
    onResponseData(controller, chunk) {
      if (response.write(chunk)) return;
      controller.pause();
      response.once('drain', () => controller.resume());
    },
    onResponseEnd: () => void response.end(),
    onResponseError: () => void response.destroy(),
  };
}

// Express calls `setPrototypeOf` on every request and response unless the prototype is already correct, and that's most
// of its overhead. So we create objects that have the right prototype from the start.
class FastRequest extends IncomingMessage {}
/** @extends {ServerResponse<FastRequest>} */
class FastResponse extends ServerResponse {}
Object.setPrototypeOf(FastRequest.prototype, app.request);
Object.setPrototypeOf(FastResponse.prototype, app.response);
Object.assign(app, { request: FastRequest.prototype, response: FastResponse.prototype });

const server = createServer({ IncomingMessage: FastRequest, ServerResponse: FastResponse }, app);
server.keepAliveTimeout = 65_000;
server.listen({ host: '127.0.0.1', port: 0, backlog: 4_096 }, () => {
  const address = server.address();
  console.log(`http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`);
});
process.on('SIGTERM', () => process.exit());
