import { toUsd } from '../../core/cost.ts';
import { formatTime } from '../../core/time.ts';
import { explainRefusal } from '../../usage/refusals/explain-refusal.ts';
import { type RefusedCallRow, startOfRefused } from '../../usage/refusals/read-refusals.ts';

export function toRefusedCallJson(row: RefusedCallRow) {
  const { id, project, keyPrefix, keyName, source, route, requestedModel, status, code, reason, rule, limit } = row;
  const isCost = reason === 'project_cap' || rule?.startsWith('cost/') === true;
  return {
    ...{ id, created_at: formatTime(startOfRefused(row)), project, key: keyPrefix, key_name: keyName, source, route },
    ...{ model_asked: requestedModel, status, code, reason, rule, limit: limit !== null && isCost ? toUsd(limit) : limit },
    ...explainRefusal(row),
  };
}
