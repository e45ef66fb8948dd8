"""Texts that are hard for tokenizers, for peers_tokenizers_test.py."""

import random
import unicodedata

# Between texts in the input of the program text_ids.
SEPARATOR = "\x1e"

WORDS = """the of and to in was he It's you'll we've I'm they'd can't it'ſ DON'T You'Re O'Neill's 'tis rock'n'roll naïve café Straße
ΑΘΗΝΑ Москва שלום مرحبا हिन्दी ไทย ভাষা İstanbul ǅ ŉ ſ ﬁne return int main() { printf("%d\\n", x[i]++); } == != -> :: // /* */
https://example.org/a?b=c&d=%20 user@example.org 3.14159 1,000,000 0x1F 1e-9 ½ ² Ⅷ ٣ １２３ #include <|im_start|> <|im_end|>
<|endoftext|> <|im_end| <||> <eos> Ġ Ċ Ã ☃ ™ €5 £ ¿ « » “ ” … — ‘ ’ _ __init__ $_ ~ ^ ` \\ | """.split()
SPACES = (*" \n\t\v\f\u0085\u00a0\u180e\u200b\u2028\u202f\u3000\ufeff", "  ", "   ", "\n\n", " \n ", "\r\n", "\t\t")
EMOJI = ("😀", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "1️⃣", "❤️", "☺", "🧑🏿‍🚀")
RANGES = ((0x4E00, 0x9FFF), (0x3040, 0x30FF), (0xAC00, 0xD7A3), (0x1100, 0x11FF), (0x20000, 0x2A6D0), (0xF900, 0xFAD9))
BASES = "aeiouAEIOUncs가ᄀक"
# What a reader may take for an error: replacements, marks of byte order, noncharacters, private use, controls.
ODD = (*"\ufffd\ufeff\ufffe\uffff\U0010ffff\ue000\U000f0000\0\x7f\x80\x9f\u200d\ufe0f\u0301", "\x1b[0m")
# Ranges below U+10000 with letters and marks that are newer than Unicode 14.
NEWER = ((0x88F, 0x897), (0xC5C, 0xC5C), (0xCDC, 0xCF3), (0xECE, 0xECE), (0x1ACF, 0x1AEB), (0x1C89, 0x1C8A), (0xA7CB, 0xA7F1))


def _characters():
    """The characters of Unicode 14, without the separator. Later ones are letters only to a PCRE2 that knows them."""
    end = 0x110000 if unicodedata.unidata_version == "14.0.0" else 0x10000
    newer = {code for first, last in NEWER for code in range(first, last + 1)}
    chars = (chr(code) for code in range(end) if code not in newer)
    return [char for char in chars if unicodedata.category(char) not in ("Cn", "Cs") and char != SEPARATOR]


def mixed_texts(seed, size):
    """Texts with together about `size` bytes in UTF-8."""
    draw = random.Random(seed)
    characters = _characters()
    marks = [char for char in characters if unicodedata.category(char) in ("Mn", "Mc", "Me")]
    long_run = tuple("a1 \n!é日") + ("ab", " a", "\n ")
    kinds = {
        lambda: draw.choice(WORDS): 40,
        lambda: draw.choice(SPACES): 30,
        lambda: "".join(draw.choices("etaoinshrdlucmwf", k=draw.randint(1, 12))): 20,
        lambda: str(draw.randrange(10 ** draw.randint(1, 9))): 6,
        lambda: draw.choice(EMOJI): 4,
        lambda: "".join(chr(draw.randint(*draw.choice(RANGES))) for _ in range(draw.randint(1, 8))): 6,
        lambda: draw.choice(BASES) + "".join(draw.choices(marks, k=draw.randint(1, 4))): 6,
        lambda: draw.choice(ODD): 2,
        lambda: "".join(draw.choices(characters, k=draw.randint(1, 6))): 6,
        lambda: draw.choice(long_run) * draw.randint(20, 600): 0.2,
    }
    texts, left = ["", " ", "a", "a" * 100_000, " " * 100_000 + "x", "\n" * 20_000], size
    while left > 0:
        parts = draw.choices(list(kinds), weights=list(kinds.values()), k=draw.randint(1, 3000))
        texts.append("".join(part() for part in parts))
        left -= len(texts[-1].encode())
    return texts
