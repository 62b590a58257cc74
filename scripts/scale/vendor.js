/**
 * Starts a vendor for `benchmark-scale`. It responds to chat requests at once. When it's asked for an embedding, it
 * returns one that is stored in the database, so that the search finds something near it.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { embeddingModel, models } from './shape.js';

/**
 * @param {import('pg').Client} client a client of the seeded database
 * @param {{ embeds?: boolean }} [options] unless `embeds` is false, the vendor serves the tier `embed`
 */
export async function startVendor(client, { embeds = true } = {}) {
  const { rows } = await client.query(
    'select embedding::text as vector from memory_passages tablesample system (0.2) where embedding is not null limit 200',
  );
  const vectors = rows.map(({ vector }) => JSON.parse(vector));
  let requests = 0;
  const usage = { prompt_tokens: 300, completion_tokens: 50, total_tokens: 350 };
  const server = createServer(async (request, response) => {
    for await (const _chunk of request);
    requests += 1;
    const body = request.url?.endsWith('/embeddings')
      ? {
          object: 'list',
          model: embeddingModel,
          data: [{ object: 'embedding', index: 0, embedding: vectors[requests % vectors.length] }],
          usage,
        }
      : {
          ...{ id: `chatcmpl-${requests}`, object: 'chat.completion', created: 1, model: 'mini', usage },
          choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: `A short answer, number ${requests}.` } }],
        };
    response.setHeader('content-type', 'application/json').end(JSON.stringify(body));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  const price = (/** @type {typeof models[number]} */ { name, input, output }) =>
    `  ${name}: { input: ${input / 1_000}, output: ${output / 1_000} }`;
  return {
    yaml: `
providers:
  scale: { base_url: "http://127.0.0.1:${port}/v1", api_key: any, dialect: chat }
models:
${models.map(price).join('\n')}
${embeds ? `  scale/${embeddingModel}: { input: 0.02, kind: embeddings }\n` : ''}tiers:
  standard: [scale/mini]
${embeds ? `  embed: [scale/${embeddingModel}]\n` : ''}`,
    async stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}
