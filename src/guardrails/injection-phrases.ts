/**
 * Defines phrases of prompt injections, for text that `injection.ts` has normalized to lower case without accents on
 * Latin letters. A single word such as `ignore` is harmless. We only match a command if a verb, a word for
 * instructions, and a reference such as `previous` are within a few words of each other.
 */

export interface Phrase {
  readonly kind: 'override' | 'exfiltration' | 'persona' | 'role_marker';
  readonly pattern: RegExp;
}

/**
 * The words that prompt injections use in a language, as alternatives of a regular expression. Nouns and adjectives can
 * be stems.
 */
interface Language {
  readonly ignore: string;
  readonly previous: string;
  readonly orders: string;
  readonly reveal?: string;
  readonly prompt?: string;
}

/** Skips text that reports something (`we ignore …`) or forbids it (`never ignore …`). Only commands should match. */
const notReported =
  '(?<!\\b(?:we|they|he|she|who|which|users?|people|models?|never|not|don.?t|cannot|can.?t|won.?t|didn.?t|doesn.?t|shouldn.?t) (?:(?:often|usually|always|sometimes|also|just|simply) )?)';

const languages: readonly Language[] = [
  {
    ignore: `${notReported}(?:ignore|disregard|forget|override|bypass|neglect|discard|dismiss|(?:do not|don.?t|stop) (?:follow|obey|listen to))(?:ing)?`,
    previous:
      'previous|prior|above|earlier|preceding|foregoing|existing|original|initial|former|system|developer|safety|hidden|default|before|you (?:know|got|were|received)|your|its',
    orders:
      'instructions?|prompts?|rules|guidelines|directives?|orders|commands|directions|restrictions|programming|guardrails|context|(?:everything|all)(?: that (?:is|was)(?: [a-z]{1,10})?)?|what(?= you )',
    reveal:
      '(?:reveal|print|output|repeat|disclose|leak|dump|expose|recite|(?:what (?:is|are|was|were)|show(?: me)?|tell me|give me|share|display|write down|summari[sz]e|translate) your)',
    prompt:
      '(?:system|initial|hidden|secret|developer|internal) ?-?(?:prompt|instructions|message)(?! (?:page|setting|editor|field|library))|(?<=your )(?:(?:original|custom|exact) instructions|instructions verbatim|(?:secret|hidden|internal) rules)',
  },
  {
    ignore: 'ignorier(?:e|en sie|t)?|vergiss|vergessen sie|missachten?|uberschreibe|umgehe|verwirf',
    previous: 'vorherig|vorig|bisherig|obig|fruher|vorangegangen|ursprunglich|system|deine',
    orders: 'anweisung|instruktion|regeln|befehl|vorgaben|prompt',
    reveal: 'zeige?|gib|verrate|nenne|offenbare|wiederhole|wie lautet|was ist',
    prompt: 'system-?(?:prompt|anweisung|nachricht)|(?:geheim|intern|versteckt|ursprunglich)en (?:anweisung|regeln)',
  },
  {
    ignore: 'ignore[rz]?|oublie[rz]?|ne ten(?:ez|s) pas compte|fai(?:s|tes) abstraction|neglige[rz]?',
    previous: 'precedent|anterieur|ci-dessus|initial|d.origine|systeme|plus haut',
    orders: 'instruction|consigne|regles|directive|ordres',
    reveal: '(?:montre|affiche|revele|repete|donne|divulgue|imprime)(?:z|r|-moi)*|quel(?:le)?s? (?:est|sont)',
    prompt: '(?:prompt|message|instructions?|consignes?) (?:systeme|initial|secret|cache|du systeme)',
  },
  {
    ignore: 'ignor(?:a|e|en|ar)|olvid(?:a|e|en)|desestima|caso omiso|omite',
    previous: 'anterior|previ[ao]s|de arriba|inicial|original|sistema',
    orders: 'instrucci|indicaciones|reglas|ordenes|directrices|mensaje',
    reveal: '(?:muestra|muestre|revela|ensena)(?:me)?|imprime|repite|dime|dame|cual es',
    prompt: '(?:prompt|mensaje|instruccion(?:es)?|indicaciones) (?:del? sistema|inicial|secret|ocult|interna)',
  },
  {
    ignore: 'ignor(?:e|a|ar)|esquec[ae]|desconsider[ea]|despreze',
    previous: 'anterior|previas|acima|inicia|origina|sistema',
    orders: 'instruc|regras|orientac|ordens|comandos|diretrizes|mensage',
    reveal: '(?:mostr|revel)[ea](?:-me)?|imprima|repita|diga|qual e|exiba',
    prompt: '(?:prompt|mensagem|instruc(?:ao|oes)|comandos?) (?:d[eo] sistema|inicia|secreta|oculta|interna)',
  },
  {
    ignore: 'ignor(?:a|i|are|ate)|dimentica(?:te)?|dimentichi|trascura|non seguire',
    previous: 'precedenti|anteriori|sopra|inizial|original|ricevute|sistema',
    orders: 'istruzioni|regole|indicazioni|direttive|comandi|ordini|messaggi',
    reveal: '(?:mostra|rivela|svela)(?:mi)?|stampa|ripeti|dimmi|qual e',
    prompt: '(?:prompt|messaggio|istruzioni) (?:di sistema|del sistema|inizial|segret|nascost|intern)',
  },
  {
    ignore: 'negeer|vergeet|sla over|overschrijf',
    previous: 'vorig|eerder|voorgaand|bovenstaand|oorspronkelijk|systeem',
    orders: 'instructie|regels|opdracht|aanwijzing|prompt',
  },
  {
    ignore: 'z?ignoruj|zapomnij|pomin|odrzuc',
    previous: 'poprzedni|wczesniejsz|powyzsz|dotychczasow|systemow',
    orders: 'instrukcj|polece|zasad|wytyczn|regul',
  },
  {
    ignore: 'yok say|unut|gormezden gel|dikkate alma',
    previous: 'onceki|yukar[iı]daki|mevcut|sistem',
    orders: 'talimat|komut|kural|yonerge',
  },
  {
    ignore: '(?:про)?[иі]гнор(?:ируй|уй)(?:те)?|забудь(?:те)?|не обращай(?:те)? внимания|отмени(?:те)?',
    previous: 'предыдущ|прежн|прошл|вышеуказанн|исходн|системн|попередн|ранее',
    orders: 'инструкц|указани|правил|команд|промпт|інструкц|вказівк',
    reveal: '(?:покажи|раскрой|выведи|повтори|напечатай|сообщи|назови)(?:те)?|какой|який',
    prompt: '(?:системн|скрыт|исходн|начальн|секретн)\\p{L}{1,4} (?:промпт|подсказк|инструкц|сообщени)',
  },
  { ignore: 'تجاهل|انس|تجاوز|لا تتبع', previous: '(?:ال)?(?:سابق|اعلاه|اصلي|نظام)', orders: '(?:ال)?(?:تعليمات|اوامر|توجيهات|قواعد)' },
  { ignore: 'अनदेखा|नजरअंदाज|नज़रअंदाज़|उपेक्षा|भूल', previous: 'पिछल|पहले|पूर्व|उपरोक्त|ऊपर', orders: 'निर्देश|आदेश|नियम' },
  {
    ignore: '忽略|无视|無視|忘记|忘記|忘掉|不要理|不要遵|跳过|跳過|绕过|繞過|覆盖|覆蓋',
    previous: '之前|以前|先前|上述|以上|前面|上面|此前|系统|系統|原有|原始|原来',
    orders: '指令|指示|提示|规则|規則|命令|设定|設定',
    reveal: '显示|顯示|输出|輸出|告诉我|告訴我|重复|重複|打印|泄露|洩露|透露|复述|公开',
    prompt: '(?:系统|系統|初始|隐藏|隱藏|内部|內部)(?:提示|指令|消息|訊息|设定|設定)',
  },
  {
    ignore: '無視|忘れ|破棄|無効|従わない',
    previous: '以前|前の|これまで|上記|今まで|すべて|全て|システム',
    orders: '指示|命令|ルール|プロンプト|指令|制約',
    reveal: '教え|表示|出力|見せ|公開|明かし|繰り返',
    prompt: '(?:システム|隠された|初期|内部)(?:プロンプト|の?指示|メッセージ)',
  },
  {
    ignore: '무시|잊|따르지|버려|취소',
    previous: '이전|위의|기존|지금까지|앞선|상기|원래|시스템',
    orders: '지시|명령|규칙|프롬프트|지침',
    reveal: '알려|보여|출력|공개|말해|반복',
    prompt: '(?:시스템|숨겨진|초기|내부) ?(?:프롬프트|지시|메시지|지침)',
  },
  { ignore: 'abaikan|lupakan', previous: 'sebelumnya|di atas|terdahulu|awal', orders: 'instruksi|perintah|aturan|petunjuk' },
  { ignore: 'bo qua|phot lo|quen', previous: 'truoc|o tren|ban dau', orders: 'huong dan|chi dan|lenh|quy tac|chi thi' },
];

/** Allows a few words between the parts of a phrase, but not the end of a sentence. */
const gap = '[^.!?\\n。！？]{0,24}?';
/** For words that belong together. Only leaves room for the ending of the first word and for one more word. */
const smallGap = '[^.!?\\n。！？]{0,8}?';

/**
 * Latin words only match at the start of a word. Chinese has no spaces, and in Arabic the article is attached to the
 * word.
 */
function anyOf(words: string): string {
  return /^[^\p{Lo}\p{Script=Cyrillic}]+$/u.test(words) ? `\\b(?:${words})` : `(?:${words})`;
}

/**
 * Builds the phrases of a language. The verb can come before or after the other words, because that depends on the
 * language.
 */
function toPhrases({ ignore, previous, orders, reveal, prompt }: Language): Phrase[] {
  const [verb, reference, object] = [`${anyOf(ignore)}(?!\\p{Ll})`, anyOf(previous), anyOf(orders)];
  const override = `${verb}${gap}(?:${reference}${smallGap}${object}|${object}${smallGap}${reference})|${reference}${smallGap}${object}${gap}${verb}`;
  const phrases: Phrase[] = [{ kind: 'override', pattern: new RegExp(override, 'u') }];
  if (reveal !== undefined && prompt !== undefined)
    phrases.push({
      kind: 'exfiltration',
      pattern: new RegExp(`${anyOf(reveal)}(?!\\p{Ll})${gap}${anyOf(prompt)}|${anyOf(prompt)}${gap}${anyOf(reveal)}(?!\\p{Ll})`, 'u'),
    });
  return phrases;
}

/** Matches commands without a word for instructions, e.g. "disregard the above and …". */
const everythingAbove = new RegExp(
  `\\b${notReported}(?:ignore|disregard|forget|discard)(?:ing)? (?:(?:all|everything|anything) )?(?:of )?(?:the )?(?:above|foregoing)(?: and| then| instead|[,;:])`,
  'u',
);

/**
 * Matches a command that's about all instructions or everything, e.g. "ignore all instructions". It has to be at the
 * start of a sentence.
 */
const allOrders =
  /(?:^|[.!?:;,\n"'(*] ?|\b(?:please|now|then|just|you (?:must|should|will|can)) )(?:(?:ignore|disregard|forget|bypass|override) all (?:of )?(?:the |these |those |your |my )?(?:instructions?|restrictions|guidelines|guardrails|directives)|(?:ignore|disregard|forget) everything)(?: and| then|[.,;:!\n]|$)/;

const newOrders =
  /\b(?:new|updated|revised|real|secret) (?:system |developer )?(?:instructions?|directives?|orders) ?(?:for (?:you|the (?:ai|assistant|model)))? ?:|\b(?:these|this|the following) (?:new )?(?:instructions?|rules|orders) (?:now )?(?:replace|override|supersede)s? (?:(?:all|any|your|the) ){0,3}(?:previous|prior|earlier|above|original)\b|\b(?:attention|important|note to|message to|instructions? (?:to|for)) ?:? ?(?:the |any |all )?(?:ai|llm|language model|ai assistant|chatbot)s?\b[^.!?]{0,40}\b(?:must|ignore|disregard|do not|always|send|reply|respond)\b/;

const leaks =
  /\b(?:repeat|print|output|copy|write|return) (?:\w{2,10} ){0,3}(?:words?|text|sentences|everything|messages|instructions) (?:above|before this)\b|\b(?:send|post|forward|upload|leak|exfiltrate) (?:[\w']{2,8} ){0,3}(?:conversation|chat history|api keys?|passwords?|credentials|secrets|memories|messages)(?: \w{1,10})? to (?:https?:|attacker|(?:this|the following) (?:url|address|server|webhook)|[\w.-]{1,40}@)|\b(?:do not|don.?t|never|without) (?:tell|inform|alert|notify|mention)(?:ing)? (?:this to )?the (?:user|human)(?: (?:about|of)) (?:this|these)\b/;

const persona =
  /\byou are (?:now|no longer|from now on) (?:\w{1,20}, )?(?:(?:in|a|an|the) )?(?:dan\b|jailbroken|unrestricted|uncensored|unfiltered|(?:evil|malicious|unethical|amoral|rogue) (?:\w{1,12} )?(?:ai|assistant|bot|chatbot|model|agent|llm)\b|(?:developer|god|debug|admin|sudo) mode|free (?:from|of) (?:your|any|all)|bound by)|\b(?:enter|enable|activate|switch to|turn on) (?:the )?(?:dan|developer|jailbreak|god|debug|unrestricted|sudo) mode\b(?! (?:in|on|of) )|\b(?:dan|jailbreak|unrestricted) mode (?:is )?(?:now )?(?:enabled|activated|active|on)\b|\b(?:act|behave|respond|answer|pretend|imagine|speak) (?:(?:to|be|as|if|like|an?|the|ai|assistant|model|that|though|you|are|were|had|has|have|who|which|with) ){0,8}(?:no|any|without|unrestricted|uncensored|unfiltered|zero) (?:(?:any|ethical|moral|safety|content|such) ){0,2}(?:restrictions|rules|limits|filters?|guidelines|guardrails|ai|model|assistant)\b|\b(?:do anything now|jailbreak prompt|from now on,? you (?:must|will|shall) (?:always )?(?:obey|comply|never refuse))\b/;

const roleMarkers =
  /<\|[a-z_]{3,20}\|>|<(?:start|end)_of_turn>|\[\/?inst\]|<<\/?sys>>|\[\/?system_prompt\]|<\/?(?:system|developer)(?:[_-]?(?:prompt|message))?>|(?:^|\n) ?#{2,} ?system(?: prompt)? ?:? ?(?:\n|$)|\n\n ?human: [^\n]{0,400}\n\n ?assistant:|(?:^|[\n"'`])[#*[(<= -]{0,8}(?:system|developer)(?: (?:message|prompt|instructions?|override|note|update))?[\])>*= ]{0,6}: ?[^\n]{0,80}?\b(?:you (?:are|must|will|should|have to)|ignore|disregard|forget|override|obey|new instructions?|from now on|reveal|do not tell)\b/;

export const phrases: readonly Phrase[] = [
  ...languages.flatMap(toPhrases),
  { kind: 'override', pattern: everythingAbove },
  { kind: 'override', pattern: allOrders },
  { kind: 'override', pattern: newOrders },
  { kind: 'exfiltration', pattern: leaks },
  { kind: 'persona', pattern: persona },
  { kind: 'role_marker', pattern: roleMarkers },
];

/**
 * Matches commands that were spelled with spaces between the letters (`i g n o r e …`). The text has to be searched
 * without these spaces.
 */
export const spacedOut =
  /(?:ignore|disregard|forget|bypass|override).{0,12}(?:previous|prior|above|earlier|system|safety).{0,12}(?:instruction|prompt|rule|guideline)|(?:reveal|show|print|repeat|leak).{0,6}systemprompt/;
