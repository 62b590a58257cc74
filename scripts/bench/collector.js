/**
 * Stands in for an OpenTelemetry collector. It runs as a separate program and discards everything that it receives.
 * When it's ready, it sends `{ port }`.
 */
import { createServer } from 'node:http';
import process from 'node:process';

const server = createServer((request, response) => {
  request.resume();
  request.on('end', () => response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end());
});
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  process.send?.({ port: typeof address === 'object' ? address?.port : 0 });
});
process.on('disconnect', () => process.exit());
