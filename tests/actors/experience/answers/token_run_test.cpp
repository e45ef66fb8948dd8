#include "actors/experience/answers/token_run.h"

#include <fstream>

#include "actors/experience/answers/shared_token_run.h"
#include "runtime/base/errors.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"
#include "tests/text/fixtures.h"

using namespace troupe;
using troupe::test::small_tokenizer;
using troupe::test::TempFolder;

namespace {

struct Dataset {
  TempFolder folder;
  RunConfig config;

  explicit Dataset(const std::string& train) {
    write("a", train);
    write("b", R"({"prompt": "b", "truth": "ab"})");
    config.task.name = "dataset";
    config.task.params = R"({"path": ")" + (folder / "a") + R"(", "held_out_path": ")" + (folder / "b") + "\"}";
  }
  void write(const std::string& name, const std::string& text) const { std::ofstream(folder / name) << text; }
};

}  // namespace

TEST_CASE("token_run: the lengths of a dataset are those of its longest texts in tokens") {
  // Each of the characters has two bytes.
  Dataset data(R"({"prompt": "\u00e9\u00e9\u00e9", "truth": "\u00e9\u00e9\u00e9\u00e9"})");
  const auto run = make_token_run(data.config);
  CHECK(run->prompt_tokens == 3);
  CHECK(run->answer_tokens == 5);  // with the token that ends it
  data.config.generation.max_tokens = 17;
  CHECK(make_token_run(data.config)->answer_tokens == 17);
}

TEST_CASE("token_run: the lengths of generated prompts are limits") {
  RunConfig config;
  config.task.params = R"({"digits": 3})";
  CHECK(make_token_run(config)->prompt_tokens == 5);
  CHECK(make_token_run(config)->answer_tokens == 4);
}

TEST_CASE("token_run: the text of an answer ends before the stop text, which no right answer may have") {
  Dataset data(R"({"prompt": "a", "truth": "ab\nb"})");
  data.config.generation.stop = "\n";
  const auto run = make_token_run(data.config);
  CHECK(run->decode(run->tokenizer->encode("ab\nb")) == "ab");
  CHECK(run->decode(run->tokenizer->encode("abb")) == "abb");
  CHECK_THROWS_WITH_AS(check_answers(data.config, *run),
                       (data.folder / "a" +
                        ":1: its right answer \"ab\\x0ab\" has the text of generation.stop, which " + "ends an answer")
                           .c_str(),
                       ConfigError);
}

TEST_CASE("token_run: a right answer may begin with a space to be short, a demonstration is trained as it is") {
  Dataset data(R"({"prompt": "a", "truth": "ab"})");
  data.write("tokenizer.json", small_tokenizer({{" ", "a"}, {" a", "b"}}).dump());
  data.config.tokenizer.kind = "bpe";
  data.config.tokenizer.path = data.folder / "tokenizer.json";
  data.config.tokenizer.eos = "<|im_end|>";
  data.config.generation.max_tokens = 2;
  const auto run = make_token_run(data.config);
  CHECK(run->tokenizer->encode("ab").size() == 2);
  CHECK(run->tokenizer->encode(" ab").size() == 1);
  check_answers(data.config, *run);
  data.config.warmup.steps = 1;
  CHECK_THROWS_WITH_AS(check_answers(data.config, *run),
                       (data.folder / "a" + ":1: its demonstration \"ab\" has 3 tokens with the one that ends it, but "
                                            "generation.max_tokens is 2")
                           .c_str(),
                       ConfigError);
}

TEST_CASE("token_run: a process reads the files once, and again when they have changed") {
  Dataset data(R"({"prompt": "a", "truth": "b"})");
  const auto first = shared_token_run(data.config);
  CHECK(shared_token_run(data.config) == first);
  RunConfig other = data.config;
  other.generation.max_tokens = 9;
  CHECK(shared_token_run(other)->answer_tokens == 9);
  data.write("a", R"({"prompt": "a", "truth": "aba"})");
  const auto changed = shared_token_run(data.config);
  CHECK(changed->data_hash != first->data_hash);
  CHECK(shared_token_run(data.config) == changed);
}

TEST_CASE("token_run: a process that does not need the prompts does not keep them") {
  const Dataset data(R"({"prompt": "a", "truth": "b"})");
  auto run = shared_token_run(data.config);
  const std::weak_ptr<const Task> task = run->task;
  const auto without = without_prompts(*run);
  run = nullptr;
  CHECK(task.expired());
  CHECK(without->data_hash == make_token_run(data.config)->data_hash);
  CHECK(without->prompt_tokens == 1);
}

TEST_CASE("token_run: a message follows an answer as it is, or as a message of the user, and is cut") {
  RunConfig config;
  config.task.name = "countdown";
  config.task.turns = 2;
  config.task.message_tokens = 3;
  const auto plain = make_token_run(config);
  CHECK(plain->tokenizer->decode(plain->encode_message("=12345:", Finish::stop)) == "=12");
  CHECK(plain->encode_message("=1:", Finish::length).size() == 3);
  config.task.message_tokens = 0;
  config.task.params = R"({"wording": "english"})";
  config.generation.max_tokens = 16;
  const TempFolder folder;
  std::ofstream(folder / "tokenizer.json") << small_tokenizer().dump();
  config.tokenizer.kind = "bpe";
  config.tokenizer.path = folder / "tokenizer.json";
  config.tokenizer.eos = "<|im_end|>";
  config.tokenizer.chat_template = "chatml";
  const auto chat = make_token_run(config);
  const auto text = [&](Finish finish) { return chat->tokenizer->decode(chat->encode_message("no", finish)); };
  CHECK(text(Finish::stop) == "\n<|im_start|>user\nno<|im_end|>\n<|im_start|>assistant\n");
  CHECK(text(Finish::length) == "<|im_end|>" + text(Finish::stop));
  CHECK(text(Finish::text) == "<|im_end|>" + text(Finish::stop));
  for (const std::string_view role : kMessageRoles)
    for (const Finish finish : {Finish::stop, Finish::length})
      CHECK(static_cast<int64_t>(chat->encode_message(std::string(200, 'x'), finish, role).size()) <=
            chat->message_tokens);
  CHECK(chat->tokenizer->decode(chat->encode_message("42", Finish::stop, "tool")) ==
        "\n<|im_start|>tool\n42<|im_end|>\n<|im_start|>assistant\n");
  CHECK_THROWS_WITH_AS(
      plain->encode_message("=1:", Finish::stop, "tool"),
      "tokenizer.chat_template: none has no place for a message with the role \"tool\", expected chatml", ConfigError);
}
