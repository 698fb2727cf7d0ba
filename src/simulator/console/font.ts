// The letters of the simulated screen, drawn for it: five columns by seven rows. A glyph is seven
// digits of base 32, one for each row from the top; its highest bit is the leftmost column.

/** Pixels. */
export const GLYPH_WIDTH = 5;
/** Pixels. */
export const GLYPH_HEIGHT = 7;

/** The character of the first glyph; the others follow in ASCII order up to `~`. */
const FIRST = 0x20;

const GLYPHS = (
  "0000000 4444404 aaa0000 aavavaa 4fke5u4 op248j3 cik8lid 4480000 " + //   ! " # $ % & '
  "2488842 8422248 04lel40 044v440 0000c48 000v000 00000cc 01248g0 " + // ( ) * + , - . /
  "ehjlphe 4c4444e eh1248v v2421he 26aiv22 vgu11he 68guhhe v124888 " + // 0 1 2 3 4 5 6 7
  "ehhehhe ehhf12c 0cc0cc0 0cc0c48 248g842 00v0v00 8421248 eh12404 " + // 8 9 : ; < = > ?
  "eh1dlle ehhvhhh uhhuhhu ehggghe sihhhis vgguggv vgguggg ehgnhhf " + // @ A B C D E F G
  "hhhvhhh e44444e 72222ic hikokih ggggggv hrllhhh hhpljhh ehhhhhe " + // H I J K L M N O
  "uhhuggg ehhhlid uhhukih fgge11u v444444 hhhhhhe hhhhha4 hhhllla " + // P Q R S T U V W
  "hha4ahh hhha444 v1248gv e88888e 0g84210 e22222e 4ah0000 000000v " + // X Y Z [ \ ] ^ _
  "8420000 00e1fhf ggmphhu 00egghe 11djhhf 00ehvge 698s888 0fhhf1e " + // ` a b c d e f g
  "ggmphhh 40c444e 20622ic ggikoki c44444e 00qllhh 00mphhh 00ehhhe " + // h i j k l m n o
  "00uhugg 00djf11 00mpggg 00ege1u 88s8896 00hhhjd 00hhha4 00hhlla " + // p q r s t u v w
  "00ha4ah 00hhf1e 00v248v 2448442 4444444 8442448 008l200" //             x y z { | } ~
).split(" ");

/** Whether a dot of a character is lit; what has no glyph is drawn as a question mark. */
export function isLit(character: string, column: number, row: number): boolean {
  const glyph = GLYPHS[character.charCodeAt(0) - FIRST] ?? GLYPHS[0x3f - FIRST] ?? "";
  const bits = Number.parseInt(glyph[row] ?? "0", 32);
  return (bits >> (GLYPH_WIDTH - 1 - column) & 1) === 1;
}
