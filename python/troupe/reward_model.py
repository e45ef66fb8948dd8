"""Makes a small reward model for token runs (setting reward_model.path) from pairs of answers, with PyTorch alone.

python -m troupe.reward_model PAIRS.jsonl --tokenizer FOLDER --out DIR
python -m troupe.reward_model --example     makes the model of configs/tokens/rlhf.json in ~/.cache/troupe/rlhf_reward

A line of PAIRS.jsonl is {"prompt": TEXT, "chosen": TEXT, "rejected": TEXT}. The model is a decoder of the family Llama with a linear
head, trained from random weights so that chosen answers get higher scores than rejected ones (Bradley-Terry). About one pair of ten is
held out, with prompts of its own. DIR, a new or an empty folder, gets a model of sequence classification with one label, which
transformers loads too, and the files of the tokenizer.
"""

import argparse
import sys

from ._reward_files import EXAMPLE_ALPHABET, CharTokens, RewardModelError, tokens_of
from ._reward_pairs import example_pairs, read_pairs
from ._reward_training import SIZES, train_reward_model

EXAMPLE_FOLDER = "~/.cache/troupe/rlhf_reward"
EXAMPLE_PAIRS = 6000


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m troupe.reward_model", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pairs", nargs="?", help='a file with lines {"prompt": TEXT, "chosen": TEXT, "rejected": TEXT}')
    parser.add_argument("--example", action="store_true", help="make pairs for configs/tokens/rlhf.json instead")
    parser.add_argument("--tokenizer", metavar="FOLDER", help="folder of the tokenizer.json of the policy")
    parser.add_argument("--alphabet", metavar="TEXT", help="instead: the characters of a tokenizer of the kind char, in their order")
    parser.add_argument("--chat-template", choices=("none", "chatml"), default="none", help="as tokenizer.chat_template of the run")
    parser.add_argument("--out", metavar="DIR", help=f"folder of the model; default with --example: {EXAMPLE_FOLDER}")
    for name, (default, least, most, meaning) in SIZES.items():
        shown = f"{meaning}; in [{least}, {most}], default: {default}"
        parser.add_argument(f"--{name}", type=type(default), default=default, metavar="N", help=shown)
    options = parser.parse_args(arguments)
    for name, what in (("pairs", "a file"), ("tokenizer", "a folder"), ("out", "a folder")):
        if getattr(options, name) == "":
            parser.error(f"{name if name == 'pairs' else '--' + name}: is empty, expected {what}")
    if options.example == bool(options.pairs):
        parser.error("give either a file of pairs or --example")
    if options.example and (options.tokenizer or options.alphabet):
        parser.error("--example has its own alphabet; leave --tokenizer and --alphabet out")
    if not options.example and ((options.tokenizer is None) == (options.alphabet is None) or not options.out):
        parser.error("a file of pairs needs --out, and either --tokenizer or --alphabet")
    try:
        if options.tokenizer:
            tokens = tokens_of(options.tokenizer, options.chat_template)
        else:
            tokens = CharTokens(EXAMPLE_ALPHABET if options.example else options.alphabet)
        pairs = example_pairs(EXAMPLE_PAIRS, options.seed) if options.example else read_pairs(options.pairs)
        out = options.out or EXAMPLE_FOLDER
        accuracy = train_reward_model(pairs, tokens, out, **{name: getattr(options, name) for name in SIZES})
    except OSError as error:
        sys.exit("troupe.reward_model: " + (f"{error.filename}: " if error.filename else "") + str(error.strerror or error))
    except RewardModelError as error:
        sys.exit("troupe.reward_model: " + " ".join(str(error).split()))
    except ImportError as missing:
        sys.exit(f"troupe.reward_model: the Python package {missing.name} is missing; it needs PyTorch")
    except KeyboardInterrupt:
        sys.exit("troupe.reward_model: interrupted; nothing was written")
    print(f"{out}: the chosen answer has the higher score in {accuracy:.1%} of the held-out pairs")


if __name__ == "__main__":
    main()
