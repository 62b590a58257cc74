/**
 * What most applications would build first is a PostgreSQL table with texts and vectors that they search by cosine
 * distance. We use such a table as the baseline.
 */
import { toVectorParameter } from '../../src/memory/text/vectors.ts';

/** @param {import('pg').Client} client a client of a database that nothing else uses */
export async function createVectorTable(client) {
  await client.query('create extension if not exists vector');
  await client.query('create table plain_memories (conversation text, number integer, embedding vector)');
  return {
    /**
     * Searches for a conversation's questions in the plain table.
     * @param {import('./dataset.js').Conversation} conversation
     * @param {import('./embeddings.js').Embeddings} embeddings
     * @param {number} limit
     * @returns {Promise<import('./dataset.js').Memory[][]>} the results of each question
     */
    async ask({ id, memories, questions }, { embed, prefix }, limit) {
      const vectors = await embed(memories.map(({ text }) => text));
      await client.query(
        'insert into plain_memories select $1, new.number, new.vector::vector from unnest($2::integer[], $3::text[]) as new (number, vector)',
        [id, memories.map((_, number) => number), vectors.map(toVectorParameter)],
      );
      const results = [];
      for (const vector of await embed(questions.map(({ text }) => prefix + text))) {
        const { rows } = await client.query(
          'select number from plain_memories where conversation = $1 order by embedding <=> $2::vector, number limit $3',
          [id, toVectorParameter(vector), limit],
        );
        results.push(rows.flatMap(({ number }) => memories[number] ?? []));
      }
      return results;
    },
  };
}
