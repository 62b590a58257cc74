/** The entry point of the workflow bundle. Each exported function is a workflow with the function's name. */
export { conversationIdle } from './conversation-idle.ts';
export { dailyCleanup } from './daily-cleanup.ts';
export { embedMemory } from './embed-memory.ts';
export { idleConversations } from './idle-conversations.ts';
export { learningBatch } from './learning-batch.ts';
export { projectLearning } from './project-learning.ts';
export { subjectErasure } from './subject-erasure.ts';
export { videoOperation } from './video-operation.ts';
