import type { ConsoleRoute } from '../frame/route.ts';
import { type ConversationDetailDeps, createConversationDetailRoutes } from './conversation-detail.ts';
import { type ConversationListDeps, createConversationListRoutes } from './conversation-list.ts';

export function createConversationRoutes(deps: ConversationListDeps & ConversationDetailDeps): readonly ConsoleRoute[] {
  return [...createConversationListRoutes(deps), ...createConversationDetailRoutes(deps)];
}
