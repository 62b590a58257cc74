/**
 * Phrases of prompt injections in several languages, for text normalized by `injection.ts`: lower case, single spaces, no accents on Latin
 * letters. A phrase is a complete order: `ignore`, `previous` and `system prompt` alone are ordinary. Every gap is bounded.
 */

export interface Phrase {
  readonly kind: 'override' | 'exfiltration' | 'persona' | 'role_marker';
  readonly pattern: RegExp;
}

const verbs =
  'ignore|disregard|forget|override|bypass|neglect|discard|dismiss|(?:do not|don.?t|stop|quit) (?:follow(?:ing)?|obey(?:ing)?|listen(?:ing)? to)';
const which = 'all|any|every|each|both|of|the|these|those|this|that|your|our|its|and|or|other|everything|anything|whatever';
const earlier =
  'previous|prior|above|earlier|preceding|foregoing|existing|original|initial|former|past|system|developer|safety|hidden|given|current|default';
const orders =
  'instructions?|prompts?|rules|guidelines|directives?|orders|commands?|directions|constraints|restrictions|programming|guardrails|polic(?:y|ies)|messages?|context';

/** Excludes reports and prohibitions: `we ignore …`, `never ignore …`. */
const notReported =
  '(?<!\\b(?:we|they|he|she|who|which|users?|people|models?|never|not|don.?t|cannot|can.?t|won.?t|didn.?t|doesn.?t|shouldn.?t|to not) (?:(?:often|usually|always|sometimes|also|just|simply) )?)';

const override = (pattern: RegExp): Phrase => ({ kind: 'override', pattern });
const exfiltration = (pattern: RegExp): Phrase => ({ kind: 'exfiltration', pattern });
const persona = (pattern: RegExp): Phrase => ({ kind: 'persona', pattern });
const roleMarker = (pattern: RegExp): Phrase => ({ kind: 'role_marker', pattern });

export const phrases: readonly Phrase[] = [
  override(
    new RegExp(
      `${notReported}\\b(?:${verbs}) (?:(?:${which}) ){0,5}(?:(?:${earlier})(?:,| and| or)? ){1,4}(?:(?:${which}) ){0,2}(?:${orders})\\b(?! for | about | on )`,
    ),
  ),
  override(
    new RegExp(
      `${notReported}\\b(?:${verbs}) (?:(?:${which}) ){0,3}(?:instructions?|prompts?|rules|guidelines|directives) (?:(?:that|which|you|were|was|have|had|been|i|he|they) ){0,5}(?:above|before|so far|given|received|told|until now)\\b`,
    ),
  ),
  override(
    new RegExp(
      `${notReported}\\b(?:${verbs}) (?:all |any )?(?:your|its) (?:\\w{1,20} ){0,2}(?:instructions|rules|guidelines|programming|training|restrictions|guardrails|directives|constraints)\\b`,
    ),
  ),
  override(
    /\b(?:ignore|disregard|forget) (?:everything|anything|all|all of that|what) (?:(?:that|which|you|i|we|they|was|were|has|have|been|just|had) ){0,4}(?:above|before(?: this| that)?|said|told|written|learned|know)\b(?! about)/,
  ),
  override(
    /\b(?:new|updated|revised|real|actual|important|urgent|secret) (?:system |developer |admin(?:istrator)? )?(?:instructions?|prompt|directives?|orders) ?(?:for (?:you|the (?:ai|assistant|model)))? ?:/,
  ),
  override(
    /\b(?:these|this|the following) (?:new )?(?:instructions?|rules|orders|text|message) (?:now )?(?:replaces?|overrides?|supersedes?|takes? precedence over) (?:(?:all|any|your|the|of) ){0,3}(?:previous|prior|earlier|above|original|system|other)\b/,
  ),
  override(
    /\b(?:attention|important|note to|message to|instructions? (?:to|for)) ?:? ?(?:the |any |all )?(?:ai|llm|language model|ai assistant|ai model|chatbot)s?\b[^.!?]{0,40}\b(?:you must|must|ignore|disregard|do not|always|send|reply|respond)\b/,
  ),

  exfiltration(
    /\b(?:reveal|show|print|output|repeat|display|disclose|leak|dump|expose|recite|reproduce|write out|write down|tell me|give me|send me|share|translate|summari[sz]e|what (?:is|are|was|were)) (?:(?:me|us|out|exactly|verbatim|all|of|the|back|again) ){0,4}(?:your|ur|its) (?:(?:full|entire|exact|complete|own|whole|very|first|current|secret|hidden|internal) ){0,3}(?:(?:system|hidden|initial|original|secret|developer|internal|base|pre|custom)[ -]?(?:prompt|instructions?|messages?|rules|directives?)|prompt|instructions verbatim)\b/,
  ),
  exfiltration(
    /\b(?:reveal|print|output|repeat|disclose|leak|dump|expose|exfiltrate|recite|extract) (?:(?:me|us|out|exactly|verbatim|all|of) ){0,3}the (?:(?:full|entire|exact|complete|hidden|secret) ){0,2}(?:system|initial|developer|hidden) ?(?:prompt|instructions?|message)\b(?! (?:page|settings?|editor|field|library))/,
  ),
  exfiltration(
    /\b(?:repeat|print|output|copy|write|say|return) (?:(?:back|out|exactly|verbatim|me|all|of|everything|every) ){0,4}(?:the )?(?:words?|text|sentences?|content|lines?|tokens?|everything|messages?|instructions?) (?:that (?:is|are|was|were|came) )?(?:above|before this|preceding this)\b/,
  ),
  exfiltration(
    /\b(?:do not|don.?t|never|without) (?:tell(?:ing)?|inform(?:ing)?|alert(?:ing)?|notify(?:ing)?|mention(?:ing)?|let(?:ting)?) (?:(?:this|it|anything) to )?the (?:user|human|person)(?: (?:about (?:this|these|it)|of this|know|that you))?(?=[ .,;!]|$)(?=.{0,40}\b(?:this|these|know|that you|instead|instruction))/,
  ),
  exfiltration(
    /\b(?:send|post|forward|upload|exfiltrate|transmit|append|leak) (?:(?:all|any|every|the|of|this|your|user.?s?|entire|whole|full|each) ){0,5}(?:conversation|chat history|api keys?|passwords?|credentials|secrets|memories|messages)(?: \w{1,20}){0,3} to (?:https?:|this (?:url|address|server|endpoint|webhook)|the following (?:url|address|server|endpoint|webhook)|attacker|[\w.-]{1,40}@)/,
  ),

  persona(
    /\byou are (?:now|no longer|from now on)(?: (?:in|a|an|the|called|named|known|as|acting|going|to|be|bound|by|subject))* (?:dan\b|stan\b|dude\b|jailbroken|jailbreak|unrestricted|uncensored|unfiltered|developer mode|god mode|debug mode|admin mode|sudo mode|evil|free (?:from|of)|your (?:rules|instructions|guidelines|restrictions)|(?:openai|anthropic|content|safety) polic|any (?:rules|restrictions|guidelines|policies))/,
  ),
  persona(
    /\b(?:enter|enable|activate|switch (?:in)?to|turn on|you are in) (?:a |the )?(?:dan|developer|jailbreak|god|debug|unrestricted|uncensored|sudo|maintenance|opposite) mode\b(?! (?:in|on|of) (?:the |your |my |windows|android|chrome|ios|settings))/,
  ),
  persona(
    /\b(?:act|behave|respond|answer|pretend|imagine|roleplay|speak)(?: (?:as|like|if|that|to|be|though|an?|the|ai|assistant|model|you|are|were|have|had|has|who|which|with|is|not|bound|by|do|does|without|free|from|of))* (?:no|any|without|unrestricted|uncensored|unfiltered|zero) (?:(?:ethical|moral|safety|content|such|more) ){0,2}(?:restrictions?|rules|limits|limitations|filters?|guidelines|guardrails|ai|model|assistant)\b/,
  ),
  persona(
    /\b(?:do anything now|jailbreak(?:ed)? (?:prompt|mode|yourself)|from now on,? you (?:must |will |shall |are to |have to )(?:always )?(?:obey|comply|ignore|disregard|do whatever|answer without|never refuse))\b/,
  ),

  roleMarker(
    /<\|(?:im_start|im_end|im_sep|system|user|assistant|endoftext|end_of_text|begin_of_text|start_header_id|end_header_id|eot_id|endofprompt|channel|message|start|end)\|>|<(?:start|end)_of_turn>|\[\/?inst\]|<<\/?sys>>|\[\/?system_prompt\]|<\/?(?:system|system[_-]?prompt|system[_-]?message|developer[_-]?message)>/,
  ),
  roleMarker(
    /(?:^|[\n"'`])[#*[(<= -]{0,8}(?:system|developer)(?: (?:message|prompt|instructions?|override|note|update))?[\])>*= ]{0,6}: ?[^\n]{0,80}?\b(?:you (?:are|must|will|should|have to)|ignore|disregard|forget|override|obey|new instructions?|from now on|reveal|do not tell)\b/,
  ),
  roleMarker(/(?:^|\n) ?#{2,} ?(?:system|instructions?|system prompt|new instructions?) ?:? ?\n/),
  roleMarker(/\n\n ?human: [^\n]{0,400}\n\n ?assistant:/),

  // German, French, Spanish, Portuguese, Italian, Dutch, Polish, Turkish
  override(
    /\b(?:ignorier(?:e|en sie|t)?|vergiss|vergessen sie|missachte|missachten sie|uberschreibe|umgehe|verwirf) (?:(?:bitte|alle|alles|samtliche|die|deine|ihre|sie|jegliche|nun|jetzt) ){0,4}(?:(?:vorherigen?|vorigen?|bisherigen?|obigen?|fruheren?|vorangegangenen?|ursprunglichen?|vorhergehenden?) (?:\w{1,20} )?(?:anweisung(?:en)?|instruktion(?:en)?|regeln|befehle?|vorgaben|prompts?|anordnungen|eingabe(?:n)?)|system-?(?:prompt|anweisungen)|was (?:oben|vorher|bisher)|(?<=deine )(?:anweisungen|regeln))/,
  ),
  exfiltration(
    /\b(?:zeig(?:e|en)?|gib|geben|verrate|nenne|offenbare|wiederhole|drucke|wie lautet|was ist) (?:(?:mir|uns|sie|bitte|genau|den|die|alle|aus) ){0,4}(?:deine?n?|ihre?n?|den|die) (?:(?:vollstandigen?|genauen?|geheimen?|ganzen?|kompletten?) ){0,2}(?:system-?(?:prompt|anweisung(?:en)?|nachricht)|(?:geheimen|internen|versteckten|ursprunglichen) (?:anweisungen|regeln))/,
  ),
  override(
    /\b(?:ignore[rz]?|oublie[rz]?|ne ten(?:ez|s) pas compte|fais abstraction|faites abstraction|neglige[rz]?) (?:(?:de|des|d.|toutes?|tous|les|tes|vos|l.|ces) ?){0,5}(?:instructions?|consignes?|regles|directives?|ordres|invites?) (?:(?:systeme|de|du) ){0,2}(?:precedente?s?|anterieure?s?|ci-dessus|initiale?s?|d.origine|systeme|donnees? (?:avant|plus haut))/,
  ),
  exfiltration(
    /\b(?:montre|affiche|revele|repete|donne|divulgue|imprime|quel(?:le)?s? (?:est|sont))(?:[zr]|-moi|s|-nous)* (?:(?:moi|nous|le|la|l.|tout|exactement) ?){0,3}(?:ton|ta|tes|votre|vos|le|l.) ?(?:(?:prompt|message|instructions?|invite|consignes?) (?:systeme|initiale?s?|secrete?s?|cachee?s?|d.origine|du systeme))/,
  ),
  override(
    /\b(?:ignora|ignore[ns]?|ignorar|olvida|olvide|olviden|desestima|haz caso omiso de|omite) (?:(?:por favor|de|todas?|todos?|las?|los|tus|sus|estas) ){0,5}(?:instrucciones?|indicaciones|reglas|ordenes|directrices|mensajes?) (?:del sistema|(?:(?:que|te|han|dado|dadas) ){0,4}(?:anterior(?:es)?|previas?|previos?|de arriba|iniciales|originales))/,
  ),
  exfiltration(
    /\b(?:muestra(?:me)?|muestre(?:me)?|revela(?:me)?|imprime|repite|dime|dame|cual es|ensena(?:me)?) (?:(?:me|exactamente|todo|el|las?|los) ){0,3}(?:tu|tus|su|sus|el|las) (?:(?:prompt|mensaje|instruccion(?:es)?|indicaciones) (?:del? sistema|inicial(?:es)?|secret[ao]s?|ocult[ao]s?|internas?|originales))/,
  ),
  override(
    /\b(?:ignore|ignora|ignorar|esqueca|esquece|desconsidere|desconsidera|despreze) (?:(?:por favor|de|todas?|todos?|as?|os?|suas?|tuas?|essas|estas) ){0,5}(?:instruc(?:ao|oes)|regras|orientac(?:ao|oes)|ordens|comandos|diretrizes|mensagens) (?:do sistema|anterior(?:es)?|previas?|acima|iniciais|originais)/,
  ),
  exfiltration(
    /\b(?:mostre|mostra|revele|revela|imprima|repita|diga|qual e|exiba)(?:-me)? (?:(?:me|exatamente|todo|o|as?|os) ){0,3}(?:seu|sua|seus|suas|teu|o|as) (?:(?:prompt|mensagem|instruc(?:ao|oes)|comandos?) (?:de sistema|do sistema|inicia(?:l|is)|secretas?|ocultas?|internas?|originais))/,
  ),
  override(
    /\b(?:ignora|ignori|ignorare|ignorate|dimentica|dimentichi|dimenticate|trascura|non seguire) (?:(?:per favore|di|tutte|tutti|le|gli|i|tue|vostre|queste) ){0,5}(?:istruzioni|regole|indicazioni|direttive|comandi|ordini|messaggi) (?:di sistema|del sistema|precedenti|anteriori|di cui sopra|sopra|iniziali|originali|ricevute)/,
  ),
  exfiltration(
    /\b(?:mostra(?:mi)?|rivela(?:mi)?|stampa|ripeti|dimmi|svela(?:mi)?|qual e) (?:(?:mi|esattamente|tutto|il|le) ){0,3}(?:tuo|tue|il|le|vostro)(?: tuo| tue)? (?:(?:prompt|messaggio|istruzioni) (?:di sistema|del sistema|inizial[ei]|segrete|nascoste|interne|originali))/,
  ),
  override(
    /\b(?:negeer|vergeet|sla over|overschrijf) (?:(?:alstublieft|a\.?u\.?b\.?|al|alle|de|het|je|jouw|uw|deze) ){0,4}(?:(?:vorige|eerdere|voorgaande|bovenstaande|oorspronkelijke|bestaande) (?:\w{1,20} )?(?:instructies?|regels|opdracht(?:en)?|aanwijzingen|prompts?|berichten)|systeem(?:prompt|instructies))/,
  ),
  override(
    /\b(?:zignoruj|ignoruj|zapomnij o?|pomin|odrzuc) ?(?:(?:prosze|o|wszystkie|wszystkich|swoje|twoje|te|tych) ){0,4}(?:(?:poprzednie|poprzednich|wczesniejsze|wczesniejszych|powyzsze|powyzszych|dotychczasowe|dotychczasowych) (?:instrukcje|instrukcji|polecenia|polecen|zasady|zasad|wytyczne|wytycznych|reguly)|instrukcje systemowe)/,
  ),
  override(
    /(?:onceki|yukar[iı]daki|daha onceki|mevcut|sistem) (?:(?:tum|butun|verilen) ){0,2}(?:talimatlar[iı]?|komutlar[iı]?|kurallar[iı]?|yonergeler[iı]?|mesajlar[iı]?)(?:n[iı]|[iı])? (?:(?:hepsini|tamamen|lutfen) ){0,2}(?:yok say|unut|gormezden gel|goz ard[iı] et|dikkate alma)/,
  ),

  // Russian and Ukrainian, Arabic, Hindi, Chinese, Japanese, Korean, Indonesian, Vietnamese
  override(
    /(?:игнорируй(?:те)?|проигнорируй(?:те)?|забудь(?:те)?|не обращай(?:те)? внимания на|отмени(?:те)?|ігноруй(?:те)?|проігноруй(?:те)?) (?:(?:пожалуйста|все|всі|эти|ці|свои|твои|ваши|про|о|об) ){0,4}(?:предыдущ\p{L}{1,4}|прежн\p{L}{1,4}|прошл\p{L}{1,4}|вышеуказанн\p{L}{1,4}|вышеприведенн\p{L}{1,4}|исходн\p{L}{1,4}|системн\p{L}{1,4}|попередн\p{L}{1,4}|ранее (?:данн|полученн)\p{L}{1,4}) (?:\p{L}{1,20} )?(?:инструкц|указани|правил|команд|сообщени|промпт|інструкц|вказівк)/u,
  ),
  exfiltration(
    /(?:покажи|раскрой|выведи|повтори|напечатай|сообщи|назови|какой|яка|який)(?:те)? (?:(?:мне|нам|полностью|дословно|весь|свой|твой|ваш|у тебя|свои|твои|ваши) ){1,4}(?:системн\p{L}{1,4}|скрыт\p{L}{1,4}|исходн\p{L}{1,4}|начальн\p{L}{1,4}|секретн\p{L}{1,4}) (?:промпт|подсказк|инструкц|сообщени|запрос)/u,
  ),
  override(
    /(?:تجاهل|انس|انسى|تجاوز|لا تتبع) (?:(?:من فضلك|كل|جميع|كافه) ?){0,3}(?:ال)?(?:تعليمات|اوامر|توجيهات|قواعد|رسائل)(?:ك)? (?:ال)?(?:سابقه|سابقة|اعلاه|قبليه|اصليه|نظام)/,
  ),
  override(
    /(?:पिछले|पिछली|पहले के|पूर्व|उपरोक्त|ऊपर के|ऊपर दिए गए) (?:सभी |सारे )?(?:निर्देशों|निर्देश|आदेशों|नियमों|निर्दशों) (?:को |की )?(?:अनदेखा|नजरअंदाज|नज़रअंदाज़|उपेक्षा|भूल)/,
  ),
  override(
    /(?:忽略|无视|無視|忘记|忘記|忘掉|不要理会|不要理會|不要遵守|不要遵循|跳过|跳過|绕过|繞過|覆盖|覆蓋) ?(?:掉|你|您|之前|以前|先前|上述|以上|前面|上面|此前|所有|全部|一切|的|任何|系统|系統|原有|原始|原来){1,6} ?(?:的)?(?:所有|全部)?的? ?(?:指令|指示|提示词?|提示詞|规则|規則|命令|要求|设定|設定|说明|說明|约束|内容|內容)/,
  ),
  exfiltration(
    /(?:显示|顯示|输出|輸出|告诉我|告訴我|重复|重複|打印|泄露|洩露|透露|复述|複述|给我看|公开)(?:你|您|一下|出|全部|所有|完整|的|我){0,5}(?:系统|系統|初始|隐藏|隱藏|原始|内部|內部)(?:提示词?|提示詞|指令|消息|訊息|设定|設定|规则)/,
  ),
  override(
    /(?:以前|これまで|前|上記|上|今まで|すべて|全て|元|システム)(?:の|まで|すべて|全て|与えられた|指示された){1,4}(?:指示|命令|ルール|プロンプト|指令|設定|制約|メッセージ)(?:を|は|を全て|をすべて|を全部)?(?:無視|忘れ|破棄|無効|従わない)/,
  ),
  exfiltration(
    /(?:あなた|君|お前)?の?(?:システム|隠された|初期|内部)(?:プロンプト|の?指示|メッセージ|設定)(?:を|の内容を|の全文を)(?:教え|表示|出力|見せ|公開|明かし|繰り返)/,
  ),
  override(
    /(?:이전|위|앞|기존|지금까지|앞선|상기|모든 이전|원래)(?:의|에|까지의|에 있는)? ?(?:모든 )?(?:지시(?:사항)?|명령|규칙|프롬프트|지침|메시지|설정)(?:들)?(?:을|를|은|는)? ?(?:모두 |전부 |다 )?(?:무시|잊|따르지|버려|취소)/,
  ),
  exfiltration(
    /(?:시스템|숨겨진|초기|내부) ?(?:프롬프트|지시(?:사항)?|메시지|지침)(?:을|를)? ?(?:모두 |전부 |그대로 )?(?:알려|보여|출력|공개|말해|반복)/,
  ),
  override(
    /\b(?:abaikan|lupakan) (?:(?:semua|seluruh|segala) ){0,2}(?:instruksi|perintah|aturan|petunjuk) (?:(?:yang|di) ){0,2}(?:sebelumnya|atas|terdahulu|awal)|\b(?:bo qua|phot lo|quen) (?:(?:tat ca|moi|cac|nhung) ){0,3}(?:huong dan|chi dan|lenh|quy tac|chi thi) (?:truoc|o tren|ban dau|tren)/,
  ),
];

/** The same orders in spaced-out letters (`i g n o r e …`), after the spaces have been removed. */
export const spacedOut =
  /(?:ignore|disregard|forget|bypass|override)(?:all|any|the|your|of|these|those|everything)*(?:previous|prior|above|earlier|system|safety)(?:\w{0,12})?(?:instruction|prompt|rule|guideline|directive)|(?:reveal|show|print|repeat|leak|dump)(?:me|the|your)*system(?:prompt|instruction|message)/;
