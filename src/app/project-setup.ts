/** Finds out which of the console's first steps a project has already completed. */
import type { ProjectSetup } from '../console/overview/getting-started.ts';
import { hasMemories } from '../memory/items/has-memories.ts';
import { backgroundCaller } from '../pipeline/call/internal-call.ts';
import type { Project } from '../projects/projects.ts';
import { listChatModels } from '../routing/list-models.ts';
import type { AppBase } from './base.ts';

interface SetupDeps extends Pick<AppBase, 'database' | 'snapshot'> {
  readonly providersOf: (project: Project) => readonly string[];
}

export function createReadSetup({ database, snapshot, providersOf }: SetupDeps) {
  return async (project: Project): Promise<Pick<ProjectSetup, 'providers' | 'hasDemo' | 'tiers' | 'hasMemories'>> => {
    const { catalog, config } = snapshot();
    const { id, slug, settings } = project;
    const providers = providersOf(project);
    const { tiers } = listChatModels({
      ...{ catalog, project: settings, source: slug, caller: backgroundCaller(id), catalogFill: config.catalogFill },
    });
    return {
      providers,
      hasDemo: providers.includes('demo'),
      tiers: tiers.filter((name) => name !== 'auto'),
      hasMemories: await hasMemories(database, id),
    };
  };
}
