/**
 * Creates a file with the memories of a conversation, for the gateway to import (docs/memory-export.md). For the
 * gateway, it looks as if it had learned the memories itself, from one conversation per session with the session's
 * date.
 */
import { v7 } from 'uuid';

/**
 * @param {string} project
 * @param {import('./dataset.js').Memory[]} memories
 * @param {string | null} subject
 * @returns {string}
 */
export function toExportFile(project, memories, subject) {
  /** @type {Map<number, { id: string, at: string }>} */
  const sessions = new Map();
  for (const { session, date } of memories) {
    const at = date || new Date().toISOString();
    if (!sessions.has(session)) sessions.set(session, { id: v7({ msecs: Date.parse(at) }), at });
  }
  const conversations = [...sessions.values()].map(({ id, at }) => ({
    ...{ type: 'conversation', id, subject, source: 'benchmark', calls: 1, started_at: at, last_turn_at: at },
  }));
  const items = memories.map(({ text, session, date }) => {
    const from = sessions.get(session);
    const at = date || from?.at;
    return {
      ...{ type: 'item', id: v7({ msecs: Date.parse(at ?? '') }), subject, text, kind: 'fact', importance: 3, origin: 'observed' },
      ...{ author: 'benchmark', state: 'live', conversation: from?.id, created_at: at, updated_at: at },
    };
  });
  const header = { type: 'header', format: 'model-gateway-memory', version: 1, project, exported_at: new Date().toISOString() };
  const end = { type: 'end', records: { conversation: conversations.length, item: items.length } };
  return [header, ...conversations, ...items, end].map((record) => `${JSON.stringify(record)}\n`).join('');
}
