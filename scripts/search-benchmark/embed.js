/** Embeds texts with the local embedder of the gateway. */
import { setTimeout as sleep } from 'node:timers/promises';

export const model = 'bge-small-en-v1.5';
const perRequest = 100;
const embedderLimitMs = 60_000;

/** @param {import('../bench/gateway.js').Gateway} gateway */
export function createEmbed({ program, keys }) {
  /** @param {readonly string[]} texts @returns {Promise<number[][]>} */
  return async (texts) => {
    /** @type {number[][]} */
    const vectors = [];
    for (let at = 0; at < texts.length; at += perRequest) {
      const response = await fetch(`http://127.0.0.1:${program.port}/v1/embeddings`, {
        method: 'POST',
        headers: { authorization: `Bearer ${keys.plain}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: `local/${model}`, input: texts.slice(at, at + perRequest) }),
      });
      const body = /** @type {any} */ (await response.json());
      if (!response.ok) throw new Error(`embeddings: ${response.status} ${JSON.stringify(body)}`);
      vectors.push(...body.data.map((/** @type {{ embedding: number[] }} */ { embedding }) => embedding));
    }
    return vectors;
  };
}

/** @param {ReturnType<typeof createEmbed>} embed */
export async function untilEmbedded(embed) {
  for (const limitAt = performance.now() + embedderLimitMs; ; await sleep(500)) {
    try {
      await embed(['ready']);
      return;
    } catch (error) {
      if (performance.now() > limitAt) throw error;
    }
  }
}
