import { fileURLToPath } from 'node:url';
import { createLogger } from '../../src/observability/logger.ts';
import { prepareWorkflowBundle } from '../../src/temporal/worker/workflow-bundle.ts';

/** Builds the workflow bundle of this checkout once for all tests. */
export function prepareTestBundle(signal?: AbortSignal): Promise<string> {
  const dataDir = fileURLToPath(new URL('../../node_modules/.cache/model-gateway', import.meta.url));
  const logger = createLogger({ level: 'error' });
  return prepareWorkflowBundle({ dataDir, logger, ...(signal && { signal }) });
}
