/**
 * What operators filter runs by in Temporal's UI and command line: `GatewayProject="…" and GatewayKind="learning"`. Keywords only, of ids and
 * fixed words, since search attributes are never encrypted (lessons 47, 48).
 *
 * Best effort: a server must have been told of an attribute, else it refuses every start that has it. Where it does not let us, workflows
 * start without.
 */
import { defineSearchAttributeKey, type SearchAttributePair } from '@temporalio/common';
import { errorSummary } from '../../core/error-messages.ts';
import type { OutboxEntry } from '../../db/outbox.ts';
import type { Logger } from '../../observability/logger.ts';

const projectKey = defineSearchAttributeKey('GatewayProject', 'KEYWORD');
/** The first word of the workflow id, such as `conversation`. */
const kindKey = defineSearchAttributeKey('GatewayKind', 'KEYWORD');
const attributeNames = [projectKey.name, kindKey.name];

/** After a refusal, which may be of a server that is still learning the names, or the namespace. */
const retryIntervalMs = 5_000;

export interface SearchAttributes {
  /** Registers them unless that was done. Never throws. */
  ensureRegistered(): Promise<void>;
  /** The server may have lost its state: registers them again at the next `prepare`. */
  reset(): void;
  /** A start was refused that had them: starts go without until a later `prepare` has succeeded. */
  disable(): void;
  /** Undefined: the server does not know them. */
  attributesFor(entry: OutboxEntry): SearchAttributePair[] | undefined;
}

export function createSearchAttributes(register: (names: readonly string[]) => Promise<void>, logger: Logger): SearchAttributes {
  let isUsable = false;
  let nextTryAt = Number.NEGATIVE_INFINITY;
  let hasLogged = false;

  return {
    async ensureRegistered() {
      if (isUsable || performance.now() < nextTryAt) return;
      try {
        await register(attributeNames);
        isUsable = true;
      } catch (error) {
        nextTryAt = performance.now() + retryIntervalMs;
        if (!hasLogged) logger.info({ err: error }, `workflows start without search attributes: ${errorSummary(error)}`);
        hasLogged = true;
      }
    },
    reset() {
      isUsable = false;
      nextTryAt = Number.NEGATIVE_INFINITY;
    },
    disable() {
      isUsable = false;
      nextTryAt = performance.now() + retryIntervalMs;
    },
    attributesFor({ workflowId, projectId }) {
      if (!isUsable) return undefined;
      const kind = { key: kindKey, value: workflowId.split('/', 1)[0] ?? '' };
      return projectId === undefined ? [kind] : [kind, { key: projectKey, value: projectId }];
    },
  };
}
