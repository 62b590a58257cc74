/**
 * Search attributes, by which operators filter runs in Temporal's UI and CLI: `GatewayProject="…" and GatewayKind="learning"`. Values are ids
 * and fixed keywords only, because search attributes are never encrypted.
 *
 * Best effort: a server rejects starts with attributes that are not registered. Where registration fails, workflows start without them.
 */
import { defineSearchAttributeKey, type SearchAttributePair } from '@temporalio/common';
import type { OutboxEntry } from '../../db/outbox.ts';
import type { Logger } from '../../observability/logger.ts';

const projectKey = defineSearchAttributeKey('GatewayProject', 'KEYWORD');
/** The first segment of the workflow id, such as `conversation`. */
const kindKey = defineSearchAttributeKey('GatewayKind', 'KEYWORD');
const attributeNames = [projectKey.name, kindKey.name];

/** Minimum interval between attempts: a server may not have propagated the names or the namespace yet. */
const retryIntervalMs = 5_000;

export type SearchAttributes = ReturnType<typeof createSearchAttributes>;

export function createSearchAttributes(register: (names: readonly string[]) => Promise<void>, logger: Logger) {
  let isUsable = false;
  let nextTryAt = Number.NEGATIVE_INFINITY;
  let hasLogged = false;

  return {
    /** Registers the attributes unless done before. Never throws. */
    async ensureRegistered(): Promise<void> {
      if (isUsable || performance.now() < nextTryAt) return;
      try {
        await register(attributeNames);
        isUsable = true;
      } catch (error) {
        nextTryAt = performance.now() + retryIntervalMs;
        if (!hasLogged) logger.info({ err: error }, 'search attributes unavailable; starting workflows without them');
        hasLogged = true;
      }
    },
    /** The server may have lost its state: the next `ensureRegistered` registers again. */
    reset(): void {
      isUsable = false;
      nextTryAt = Number.NEGATIVE_INFINITY;
    },
    /** A start with attributes was rejected: starts omit them until a later `ensureRegistered` succeeds. */
    disable(): void {
      isUsable = false;
      nextTryAt = performance.now() + retryIntervalMs;
    },
    /** The attributes of an entry; undefined while they are not registered. */
    attributesFor({ workflowId, projectId }: OutboxEntry): SearchAttributePair[] | undefined {
      if (!isUsable) return undefined;
      const kind = { key: kindKey, value: workflowId.split('/', 1)[0] ?? '' };
      return projectId === undefined ? [kind] : [kind, { key: projectKey, value: projectId }];
    },
  };
}
