/** Builds URLs of Temporal's web UI. */
import { readRecord } from './dev-server/dev-server-files.ts';

interface UiSettings {
  readonly mode: 'off' | 'external' | 'dev';
  readonly namespace: string | null;
  /** The URL of an external server's web UI. */
  readonly uiUrl: string | null;
}

/**
 * Returns the URL of the workflow list in Temporal's UI, or null if we don't know it. You can append a workflow id. For
 * the dev server we read the URL from its record, because only one process of a cluster runs the server.
 */
export async function readUiUrl(settings: UiSettings, dataDir: string): Promise<string | null> {
  if (settings.mode === 'off') return null;
  const { uiUrl, namespace } = settings.mode === 'external' ? settings : ((await readRecord(dataDir)) ?? { uiUrl: null, namespace: null });
  return uiUrl === null || namespace === null ? null : workflowsUrl(uiUrl, namespace);
}

export function workflowsUrl(uiUrl: string, namespace: string): string {
  return `${uiUrl}/namespaces/${namespace}/workflows`;
}
