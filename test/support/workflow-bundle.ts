import { fileURLToPath } from 'node:url';
import { prepareWorkflowBundle } from '../../src/jobs/worker/workflow-bundle.ts';
import { createLogger } from '../../src/observability/logger.ts';

/** The workflow bundle of this clone, which is built once for all tests. */
export function prepareTestBundle(signal?: AbortSignal): Promise<string> {
  const dataDir = fileURLToPath(new URL('../../node_modules/.cache/model-gateway', import.meta.url));
  const logger = createLogger({ level: 'error' });
  return prepareWorkflowBundle({ dataDir, logger, ...(signal && { signal }) });
}
