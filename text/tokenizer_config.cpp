#include "text/tokenizer_config.h"

namespace troupe {
namespace {

constexpr Need kBpe = {.condition = is("tokenizer.kind", kWords<"bpe">)};

}  // namespace

void describe(TokenizerConfig& c, Fields& fields) {
  const Section s(fields, "tokenizer", "text", Change::never, {kOnlyTokenRuns});
  s.add(c.kind, "kind", one_of(kWords<"char", "bpe">),
        "char: one token per character of tokenizer.alphabet; bpe: byte-level BPE from a tokenizer.json");
  s.add(c.path, "path", anything(),
        "a tokenizer.json of Hugging Face, or the folder that contains it; empty = the one in model.path",
        {.elsewhere = kWords<"name_or_path", "tokenizer_path">, .needs = {kBpe}});
  s.add(c.alphabet, "alphabet", anything(), "the characters, in the order of their ids; empty = those of the task",
        {.needs = {{.condition = is("tokenizer.kind", kWords<"char">)}}});
  s.add(c.bos, "bos", anything(),
        "token that begins a text; empty = the one of tokenizer_config.json beside tokenizer.json",
        {.elsewhere = kWords<"bos_token">, .needs = {kBpe}});
  s.add(c.eos, "eos", anything(), "token that ends an answer; empty = the one of tokenizer_config.json",
        {.elsewhere = kWords<"eos_token">, .needs = {kBpe}});
  s.add(c.pad, "pad", anything(), "token that fills a batch; empty = the one of tokenizer_config.json",
        {.elsewhere = kWords<"pad_token">, .needs = {kBpe}});
  s.add(c.chat_template, "chat_template", one_of(kWords<"none", "chatml">),
        "none: a prompt is the text of its task; chatml: it is written as a message of a user");
}

}  // namespace troupe
