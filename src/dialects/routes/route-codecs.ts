import type { TextRoute } from '../../core/call.ts';
import { chat } from '../chat/codec.ts';
import type { RouteCodec } from '../contract/route-codec.ts';
import { messages } from '../messages/codec.ts';
import { embeddings, moderations, rerank } from '../passthrough/codecs.ts';
import { responses } from '../passthrough/responses.ts';

export const routeCodecs: Readonly<Record<TextRoute, RouteCodec>> = { chat, messages, embeddings, moderations, rerank, responses };
