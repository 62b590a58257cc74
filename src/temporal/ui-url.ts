import { readRecord } from './dev-server/dev-server-files.ts';

interface UiSettings {
  readonly mode: 'off' | 'external' | 'dev';
  readonly namespace: string | null;
  readonly uiUrl: string | null;
}

/**
 * Returns the URL of the workflow list in Temporal's UI, to which you can append a workflow id. Returns null if we
 * don't know it. Only one process of a cluster runs the dev server, so we read the URL from the record that it has
 * written.
 */
export async function readUiUrl(settings: UiSettings, dataDir: string): Promise<string | null> {
  if (settings.mode === 'off') return null;
  const { uiUrl, namespace } = settings.mode === 'external' ? settings : ((await readRecord(dataDir)) ?? { uiUrl: null, namespace: null });
  return uiUrl === null || namespace === null ? null : workflowsUrl(uiUrl, namespace);
}

export function workflowsUrl(uiUrl: string, namespace: string): string {
  return `${uiUrl}/namespaces/${namespace}/workflows`;
}
