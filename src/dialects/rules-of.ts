/** The rules of each inference route, in one visible list. */
import type { TextRoute } from '../core/call.ts';
import { chat } from './chat.ts';
import { messages } from './messages.ts';
import { embeddings, moderations, rerank } from './passthrough.ts';
import { responses } from './responses.ts';
import type { RouteRules } from './route-rules.ts';

export const rulesOf: Readonly<Record<TextRoute, RouteRules>> = { chat, messages, embeddings, moderations, rerank, responses };
