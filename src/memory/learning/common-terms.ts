/** Terms that say nothing about what a statement claims, in the languages with the most conversations. */

/** As tokens: in lower case, without accents. */
export const functionTerms: ReadonlySet<string> = new Set(
  [
    'the and for you are was were has have had not but his her its our she him they them their who how why what when which where any all can did',
    'does got get out off per via with from that this these those than then been will would should could about into over also very just some your',
    'der die das und ist ein eine einen einem einer mit fur von den dem des auf bei war hat haben wir sie ihr ihre sein seine ich nicht auch sich',
    'aus zum zur wird wenn dass oder aber als nach uber noch sehr mein meine',
    'les des une est pas que qui pour avec dans sur mes ses son leur leurs elle nous vous mais plus tres ont aux cette ces sont etre chez par',
    'los las una unos unas con por para del mis sus muy mas pero como esta este estan son tiene ella ellos cuando desde hay',
    '我 你 他 她 它 您 们 們 的 了 是 在 有 不 也 都 就 和 与 很 这 那 這 个 一 私 君',
  ].flatMap((terms) => terms.split(' ')),
);

/** Names of the user, with which statements begin, and of the assistant. */
export const userTerms =
  /(?<!\p{L})(?:users?|benutzer(?:in|s)?|nutzer(?:in|s)?|anwender(?:in|s)?|(?:l['’])?utilisat(?:eur|rice)|usuari[oa]|usuári[oa]|utente|пользовател(?:ь|я|ю)|assistant)(?!\p{L})|用户|用戶|使用者|ユーザー?|사용자|المستخدم[ة]?/giu;
