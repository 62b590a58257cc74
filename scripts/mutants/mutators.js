/**
 * Finds the mutants of a module, i.e. small changes to its code that a test should notice. The mutators are those of
 * Stryker, except for these:
 *
 * - StringLiteral: most of our strings are texts of errors, logs and SQL, which tests rightly don't repeat. A string
 *   that decides something is compared with another one, so EqualityOperator changes what it does.
 * - Regex: we'd need another package to change regular expressions in a meaningful way.
 *
 * We also leave out the arguments of log calls, and functions that do nothing but log.
 *
 * We don't use Stryker itself, because its instrumenter would add more than 80 packages, most of them a second version
 * of Babel. Its other advantage is that it puts all mutants into the code at once and switches between them. We don't
 * need that, because Node caches compiled code per file, so a mutant only costs the compilation of the changed file.
 */
import { parseSync, visitorKeys } from 'oxc-parser';

/** @typedef {import('oxc-parser').Node} Node */
/** @typedef {{ mutator: string, start: number, end: number, replacement: string }} Mutation */

/** @type {Readonly<Record<string, readonly [mutator: string, ...operators: string[]]>>} */
const operators = {
  '<': ['EqualityOperator', '<=', '>='],
  '<=': ['EqualityOperator', '<', '>'],
  '>': ['EqualityOperator', '>=', '<='],
  '>=': ['EqualityOperator', '>', '<'],
  '==': ['EqualityOperator', '!='],
  '!=': ['EqualityOperator', '=='],
  '===': ['EqualityOperator', '!=='],
  '!==': ['EqualityOperator', '==='],
  '+': ['ArithmeticOperator', '-'],
  '-': ['ArithmeticOperator', '+'],
  '*': ['ArithmeticOperator', '/'],
  '/': ['ArithmeticOperator', '*'],
  '%': ['ArithmeticOperator', '*'],
  '&&': ['LogicalOperator', '||'],
  '||': ['LogicalOperator', '&&'],
  '??': ['LogicalOperator', '&&'],
  '+=': ['AssignmentOperator', '-='],
  '-=': ['AssignmentOperator', '+='],
  '*=': ['AssignmentOperator', '/='],
  '/=': ['AssignmentOperator', '*='],
  '&&=': ['AssignmentOperator', '||='],
  '||=': ['AssignmentOperator', '&&='],
  '??=': ['AssignmentOperator', '&&='],
};

const swappedMethods = [
  ['startsWith', 'endsWith'],
  ['toUpperCase', 'toLowerCase'],
  ['trimStart', 'trimEnd'],
  ['some', 'every'],
  ['min', 'max'],
].flatMap(([a = '', b = '']) => [
  [a, b],
  [b, a],
]);
/** @type {ReadonlyMap<string, string>} */
const otherMethods = new Map(swappedMethods.map(([name = '', other = '']) => [name, other]));
/** Methods whose result has the same type as the object, so that we can remove the call. */
const removableMethods = new Set(['filter', 'reverse', 'slice', 'sort', 'substring', 'toReversed', 'toSorted', 'trim']);

/** TypeScript's nodes that contain expressions. We don't look into the other ones, because Node removes the types. */
const typedExpressions = new Set(['TSAsExpression', 'TSNonNullExpression', 'TSSatisfiesExpression']);

/**
 * @param {string} file
 * @param {string} code
 * @returns {Mutation[]}
 */
export function findMutations(file, code) {
  const { program, errors } = parseSync(file, code);
  if (errors[0]) throw new Error(`${file}: ${errors[0].message}`);
  /** @type {Map<string, Mutation>} */
  const mutations = new Map();
  visit(program, (node) => {
    for (const mutation of mutationsOf(node, code)) {
      // Several mutators can produce the same change, e.g. if a condition is a comparison.
      const key = `${mutation.start} ${mutation.end} ${mutation.replacement}`;
      if (!mutations.has(key)) mutations.set(key, mutation);
    }
    return !isLogCall(node, code);
  });
  return [...mutations.values()].toSorted((a, b) => a.start - b.start);
}

/**
 * @param {Node} node
 * @param {(node: Node) => boolean} enter returns whether to visit the children
 */
function visit(node, enter) {
  if (node.type.startsWith('TS') && !typedExpressions.has(node.type)) return;
  if (!enter(node)) return;
  for (const key of visitorKeys[node.type] ?? []) {
    const child = /** @type {Record<string, Node | (Node | null)[] | null>} */ (/** @type {unknown} */ (node))[key];
    for (const each of Array.isArray(child) ? child : [child]) if (each) visit(each, enter);
  }
}

/**
 * @param {Node} node
 * @param {string} code
 */
function isLogCall(node, code) {
  return node.type === 'CallExpression' && /\blogger\??\.\w+$/.test(code.slice(node.callee.start, node.callee.end));
}

/**
 * @param {Node} node
 * @param {string} code
 * @returns {Mutation[]}
 */
function mutationsOf(node, code) {
  /** @param {Node} part */
  const textOf = (part) => code.slice(part.start, part.end);
  /**
   * @param {string} mutator
   * @param {Node} part
   * @param {string[]} replacements
   */
  const replace = (mutator, { start, end }, ...replacements) => replacements.map((replacement) => ({ mutator, start, end, replacement }));

  switch (node.type) {
    case 'IfStatement':
    case 'ConditionalExpression':
      return replace('ConditionalExpression', node.test, 'true', 'false');
    case 'ForStatement':
    case 'WhileStatement':
    case 'DoWhileStatement':
      return node.test ? replace('ConditionalExpression', node.test, 'false') : [];
    case 'SwitchCase': {
      const [first] = node.consequent;
      return first ? [{ mutator: 'ConditionalExpression', start: first.start, end: node.end, replacement: '' }] : [];
    }
    case 'BinaryExpression':
    case 'LogicalExpression': {
      const [mutator, ...others] = operators[node.operator] ?? [];
      const isConcatenation = node.operator === '+' && [node.left, node.right].some((side) => /^['"`]/.test(textOf(side)));
      if (mutator === undefined || isConcatenation) return [];
      const left = node.left.type === 'LogicalExpression' ? `(${textOf(node.left)})` : textOf(node.left);
      const right = textOf(node.right);
      // The other operator can have a different precedence, and `??` can't be mixed with others, so we need
      // parentheses.
      const close = mutator === 'LogicalOperator' ? ['(', ')'] : ['', ''];
      const changed = replace(mutator, node, ...others.map((other) => `${close[0]}${left} ${other} ${right}${close[1]}`));
      const isCondition = mutator === 'EqualityOperator' || (mutator === 'LogicalOperator' && node.operator !== '??');
      return isCondition ? [...changed, ...replace('ConditionalExpression', node, 'true', 'false')] : changed;
    }
    case 'AssignmentExpression': {
      const [mutator, other] = operators[node.operator] ?? [];
      return mutator ? replace(mutator, node, `${textOf(node.left)} ${other} ${textOf(node.right)}`) : [];
    }
    case 'UnaryExpression':
      if (node.operator === '!') return replace('BooleanLiteral', node, textOf(node.argument));
      return node.operator === '-' ? replace('UnaryOperator', node, `+${textOf(node.argument)}`) : [];
    case 'UpdateExpression':
      return replace(
        'UpdateOperator',
        node,
        textOf(node).replace(/\+\+|--/, (operator) => (operator === '++' ? '--' : '++')),
      );
    case 'Literal':
      return typeof node.value === 'boolean' ? replace('BooleanLiteral', node, String(!node.value)) : [];
    case 'BlockStatement':
      return node.body.length > 0 ? replace('BlockStatement', node, '{}') : [];
    case 'ArrowFunctionExpression':
      if (node.body.type === 'BlockStatement' || isLogCall(node.body, code) || textOf(node.body) === 'undefined') return [];
      return replace('ArrowFunction', node.body, 'undefined');
    case 'ArrayExpression':
      return node.elements.length > 0 ? replace('ArrayDeclaration', node, '[]') : [];
    case 'ObjectExpression':
      return node.properties.length > 0 ? replace('ObjectLiteral', node, '{}') : [];
    case 'MemberExpression':
      if (!node.optional) return [];
      return replace('OptionalChaining', node, withoutQuestionMark(node, node.object.end, node.computed ? '' : '.', code));
    case 'CallExpression': {
      const { callee } = node;
      const optional = node.optional ? replace('OptionalChaining', node, withoutQuestionMark(node, callee.end, '', code)) : [];
      if (callee.type !== 'MemberExpression' || callee.property.type !== 'Identifier' || callee.computed) return optional;
      const { name } = callee.property;
      if (removableMethods.has(name)) return [...optional, ...replace('MethodExpression', node, textOf(callee.object))];
      const other = otherMethods.get(name);
      if (other === undefined) return optional;
      return [...optional, ...replace('MethodExpression', callee, code.slice(callee.start, callee.property.start) + other)];
    }
    default:
      return [];
  }
}

/**
 * @param {Node} node
 * @param {number} from where to look for the `?.`
 * @param {string} replacement
 * @param {string} code
 */
function withoutQuestionMark(node, from, replacement, code) {
  const at = code.indexOf('?.', from);
  return code.slice(node.start, at) + replacement + code.slice(at + 2, node.end);
}
