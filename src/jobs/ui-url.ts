/** Addresses in Temporal's web UI. */
import { readRecord } from './dev-server/dev-server-files.ts';

interface UiSettings {
  readonly mode: 'off' | 'external' | 'dev';
  readonly namespace: string | null;
  /** Of an external server. */
  readonly uiUrl: string | null;
}

/**
 * Returns the address of the list of workflows, to which a workflow id can be appended; null when it is unknown. Reads the record of the dev
 * server, because only one process of a cluster runs it.
 */
export async function readUiUrl(settings: UiSettings, dataDir: string): Promise<string | null> {
  if (settings.mode === 'off') return null;
  const { uiUrl, namespace } = settings.mode === 'external' ? settings : ((await readRecord(dataDir)) ?? { uiUrl: null, namespace: null });
  return uiUrl === null || namespace === null ? null : workflowsUrl(uiUrl, namespace);
}

export function workflowsUrl(uiUrl: string, namespace: string): string {
  return `${uiUrl}/namespaces/${namespace}/workflows`;
}
