// The task dataset and the reader of its files.

#include <algorithm>
#include <fstream>
#include <set>

#include "runtime/base/errors.h"
#include "tasks/answer_match.h"
#include "tasks/dataset_file.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"
#include "tests/tasks/fixtures.h"

using namespace troupe;
using namespace troupe::test;

namespace {

struct Files {
  TempFolder folder;
  std::string path(const std::string& name) const { return folder.path() + "/" + name; }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path(name)) << text; }
  // The task of the files a and b, b with the held-out prompts.
  std::unique_ptr<Task> task(const std::string& params = "", const std::string& verifier = "") const {
    const std::string paths = R"({"path": ")" + path("a") + R"(", "held_out_path": ")" + path("b") + '"';
    return make_task({.name = "dataset", .params = paths + params + '}', .verifier = verifier});
  }
  std::unique_ptr<Task> verified_task(const std::string& params = "") const { return task(params, "py:m:f"); }
  // Why the file `a` with this text is refused, without its folder.
  std::string refusal(const std::string& text, const std::string& params = "") const {
    write("a", text);
    write("b", R"({"prompt": "held out", "truth": "7"})");
    try {
      task(params);
    } catch (const ConfigError& error) {
      std::string what = error.what();
      for (size_t at; (at = what.find(folder.path() + '/')) != std::string::npos;)
        what.erase(at, folder.path().size() + 1);
      return what;
    }
    return "accepted";
  }
};

const std::string kGood = "{\"prompt\": \"p\", \"truth\": \"t\"}\n";

}  // namespace

TEST_CASE("dataset: each split draws the prompts of its file") {
  Files files;
  CHECK(files.refusal("\xef\xbb\xbf" + kGood + "\r\n\n{\"prompt\": \"q\", \"truth\": 12, \"id\": [1]}") == "accepted");
  const auto task = files.task();
  std::set<std::string> train;
  Rng rng(1);
  for (int i = 0; i < 50; ++i) {
    const Prompt prompt = task->draw(rng, Split::train);
    train.insert(prompt.text + "=" + prompt.truth);
    CHECK(task->draw(rng, Split::held_out).text == "held out");
  }
  CHECK(train == std::set<std::string>{"p=t", "q=12"});
}

TEST_CASE("dataset: keys have other names, and a demonstration may be longer than the truth") {
  Files files;
  files.write("a", R"({"question": "3+4?", "answer": "3+4 is 7 #### 7", "solution": "That is 7."})");
  files.write("b", R"({"question": "\u00e9", "answer": 1})");
  const auto task =
      files.task(R"(, "prompt": "question", "truth": "answer", "demonstration": "solution", "match": "last_number")");
  Rng rng(1);
  const Prompt prompt = task->draw(rng, Split::train);
  CHECK(prompt.demonstration == "That is 7.");
  CHECK(task->score(prompt, "6, or rather 7.00").right);
  CHECK_FALSE(task->score(prompt, "7, or rather 6").right);
  CHECK_FALSE(task->score(prompt, "seven").right);
  CHECK(task->score(prompt, std::string(5000, 'x') + " 7").right);
  CHECK(task->alphabet().find("\xc3\xa9") != std::string::npos);
  CHECK(task->max_prompt_length() == 4);
  CHECK(task->max_answer_length() == 10);
}

TEST_CASE("dataset: numbers that differ beyond the precision of float64 are different") {
  Files files;
  files.write("a", R"({"prompt": "p", "truth": 9007199254740993})");
  files.write("b", R"({"prompt": "q", "truth": "12345678901234567890123.50"})");
  const auto task = files.task(R"(, "match": "last_number")");
  const Prompt a = task->held_out(1, 1).front();
  CHECK(task->score(a, "12,345,678,901,234,567,890,123.5").right);
  CHECK_FALSE(task->score(a, "12345678901234567890124").right);
  Rng rng(1);
  const Prompt b = task->draw(rng, Split::train);
  CHECK(task->score(b, "it is 9007199254740993.0").right);
  CHECK_FALSE(task->score(b, "9007199254740992").right);
}

TEST_CASE("dataset: the held-out prompts of an evaluation are different ones, all of them if there are no more") {
  Files files;
  std::string lines;
  for (int i = 0; i < 50; ++i) lines += "{\"prompt\": \"" + std::to_string(i) + "\", \"truth\": 1}\n";
  files.write("a", kGood);
  files.write("b", lines);
  const auto task = files.task();
  std::set<std::set<std::string>> chosen;
  for (const int64_t most : {1, 7, 50, 51, 1000})
    for (const uint64_t key : {1, 2}) {
      std::set<std::string> texts;
      const std::vector<Prompt> prompts = task->held_out(key, most);
      for (const Prompt& prompt : prompts) texts.insert(prompt.text);
      CHECK(static_cast<int64_t>(prompts.size()) == std::min<int64_t>(most, 50));
      CHECK(texts.size() == prompts.size());
      if (most == 7) chosen.insert(texts);
    }
  CHECK(chosen.size() == 2);
}

TEST_CASE("dataset: with a verifier a prompt needs no truth, and keeps its line") {
  Files files;
  const std::string ours = R"({"prompt": "p", "truth": [1, 2], "id": 7})", trl = R"({"prompt": "q", "solution": "4"})";
  files.write("a", ours + '\n');
  files.write("b", "  " + trl + "\r\n");
  const auto task = files.verified_task();
  Rng rng(1);
  const Prompt first = task->draw(rng, Split::train), second = task->draw(rng, Split::held_out);
  CHECK(first.truth == "[1,2]");
  CHECK(first.columns == ours);
  CHECK(first.demonstration.empty());
  CHECK(task->short_answer(first).empty());
  CHECK(second.truth.empty());
  CHECK(second.columns == trl);
  const uint64_t before = task->data_hash();
  files.write("b", R"({"prompt": "q", "solution": "5"})");
  CHECK(files.verified_task()->data_hash() != before);
}

TEST_CASE("dataset: without a verifier a prompt has no columns") {
  Files files;
  files.write("a", R"({"prompt": "p", "reward_model": {"style": "rule", "ground_truth": "72"}})");
  files.write("b", R"({"prompt": "q", "extra": {"answer": 8}, "truth": null})");
  CHECK_THROWS_WITH_AS(files.task(), (files.path("b") + ":1: has no \"truth\", which is required").c_str(),
                       ConfigError);
  files.write("b", R"({"prompt": "q", "reward_model": {"ground_truth": 8}})");
  Rng rng(1);
  const Prompt prompt = files.task()->draw(rng, Split::train);
  CHECK(prompt.truth == "72");
  CHECK(prompt.columns.empty());
  files.write("a", R"({"prompt": "p", "extra": {"answer": 8}})");
  files.write("b", R"({"prompt": "q", "extra": {"answer": 9}})");
  CHECK(files.task(R"(, "truth": "extra.answer")")->held_out(1, 1).front().truth == "9");
}

TEST_CASE("dataset: a prompt may be a list of messages, and is identified by all of them") {
  Files files;
  const std::string user = R"({"role": "user", "content": "Hi"})",
                    system = R"({"content": "Be brief.", "role": "system"})";
  const auto line = [](const std::string& messages) { return "{\"prompt\": [" + messages + "], \"truth\": 1}\n"; };
  CHECK(files.refusal(line(system + ", " + user) + line(user)) == "accepted");
  CHECK(files.refusal(line(user) + line(R"({"role": "user", "content": "Hi", "name": null})"))
            .starts_with("a:2: the prompt \"Hi\" is also in line 1"));
  files.write("a", line(system + ", " + user));
  files.write("b", line(R"({"role": "user", "content": "Hello"})"));
  const auto task = files.task();
  Rng rng(1);
  const Prompt two = task->draw(rng, Split::train), one = task->draw(rng, Split::held_out);
  CHECK(two.text == R"([{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}])");
  CHECK(two.messages == std::vector<std::pair<std::string, std::string>>{{"system", "Be brief."}, {"user", "Hi"}});
  CHECK(one.text == "Hello");
  CHECK(one.messages.empty());
  CHECK(task->alphabet().find('{') == std::string::npos);
}

TEST_CASE("dataset: a prompt may end with the message of a tool, also alone") {
  Files files;
  files.write("a", R"({"prompt": [{"role": "user", "content": "2*3?"}, {"role": "assistant", "content": "call"}, )"
                   R"({"role": "tool", "content": "6"}], "truth": 6})");
  files.write("b", R"({"prompt": [{"role": "tool", "content": "7"}], "truth": 7})");
  const auto task = files.task();
  Rng rng(1);
  CHECK(task->draw(rng, Split::train).messages.back() == std::pair<std::string, std::string>("tool", "6"));
  CHECK(task->draw(rng, Split::held_out).messages == std::vector<std::pair<std::string, std::string>>{{"tool", "7"}});
}

TEST_CASE("dataset: a list of messages that is none is refused with its line") {
  Files files;
  const auto refusal = [&](const std::string& list) {
    return files.refusal("{\"prompt\": " + list + ", \"truth\": 1}");
  };
  CHECK(refusal("[]") == "a:1: \"prompt\" has no messages, expected a message of the user or a tool at its end");
  CHECK(refusal(R"(["Hi"])") == "a:1: \"prompt\"[0] is \"Hi\", expected {\"role\": TEXT, \"content\": TEXT}");
  CHECK(refusal(R"([{"role": "function", "content": "x"}])") ==
        "a:1: \"prompt\"[0].role is \"function\", expected one of: system, user, assistant, tool");
  CHECK(refusal(R"([{"role": "user", "content": " "}])") == "a:1: \"prompt\"[0].content is empty");
  CHECK(refusal(R"([{"role": "user", "content": "x", "name": "y"}])") ==
        "a:1: \"prompt\"[0].name is not supported, expected role and content alone");
  CHECK(
      refusal(R"([{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}])") ==
      "a:1: \"prompt\" ends with a message of the assistant or system, expected a message of the user or a tool at its "
      "end");
}

TEST_CASE("dataset: match has no effect with a verifier and is refused") {
  Files files;
  files.write("a", kGood);
  files.write("b", R"({"prompt": "q"})");
  CHECK_THROWS_WITH_AS(files.verified_task(R"(, "match": "number")"),
                       "task.params.match: \"number\" has no effect with task.verifier; leave it out", ConfigError);
}

TEST_CASE("dataset: a walk has each prompt once per pass, in another order each time") {
  Files files;
  std::string lines;
  for (int i = 0; i < 30; ++i) lines += "{\"prompt\": \"" + std::to_string(i) + "\", \"truth\": 1}\n";
  files.write("a", lines);
  files.write("b", R"({"prompt": "held out", "truth": 1})");
  const auto task = files.task();
  std::set<std::vector<std::string>> orders;
  for (const uint64_t key : {1, 2})
    for (uint64_t pass = 0; pass < 3; ++pass) {
      std::vector<std::string> order;
      for (uint64_t i = 0; i < 30; ++i) order.push_back(task->prompt(key, pass * 30 + i, Split::train).text);
      CHECK(std::set<std::string>(order.begin(), order.end()).size() == 30);
      orders.insert(order);
    }
  CHECK(orders.size() == 6);
  CHECK(task->prompt(1, 5, Split::held_out).text == "held out");
  CHECK(task->prompt(1, 5, Split::train).text == files.task()->prompt(1, 5, Split::train).text);
}

TEST_CASE("dataset: a truth that no answer can equal is refused with its line") {
  Files files;
  const auto error = [&](const std::string& lines, const std::string& params = "") -> std::string {
    files.write("a", lines);
    files.write("b", R"({"prompt": "held out", "truth": "7"})");
    try {
      files.task(params)->check_answers([](const Prompt&, const std::string& answer) {
        return answer.size() > 4 ? "the right answer " + answer + " is too long" : std::string();
      });
    } catch (const ConfigError& refused) {
      return std::string(refused.what()).substr(files.folder.path().size() + 1);
    }
    return "accepted";
  };
  CHECK(error(kGood + "{\"prompt\": \"q\", \"truth\": \" four \"}") == "accepted");
  CHECK(error(kGood + "{\"prompt\": \"q\", \"truth\": \"fives\"}") == "a:2: the right answer fives is too long");
  const std::string number = "{\"prompt\": \"q\", \"truth\": \"sum #### 0,042.00\"}";
  CHECK(error(kGood + number).starts_with("a:2: the right answer sum #### "));
  CHECK(error(number, R"(, "match": "last_number")") == "accepted");  // 42 is right
}

TEST_CASE("dataset: a bad line is refused with its file, line and reason") {
  Files files;
  CHECK(files.refusal(kGood + "{\"prompt\": }").starts_with("a:2:12: not valid JSON: "));
  CHECK(files.refusal(kGood + "\n[1]") == "a:3: is [1], expected an object {\"prompt\": ..., \"truth\": ...}");
  CHECK(files.refusal("{\"prompt\": \"p\"}") == "a:1: has no \"truth\", which is required");
  CHECK(files.refusal("{\"prompt\": 3, \"truth\": 3}") ==
        "a:1: \"prompt\" is 3, expected a text or a list of messages");
  CHECK(files.refusal("{\"prompt\": \"p\", \"truth\": 0.5}") ==
        "a:1: \"truth\" is 0.5, expected a text or a whole number");
  CHECK(files.refusal("{\"prompt\": \" \", \"truth\": 3}") == "a:1: \"prompt\" is empty");
  CHECK(files.refusal(kGood + kGood) == "a:2: the prompt \"p\" is also in line 1, expected each prompt once");
  CHECK(files.refusal(kGood + "{\"prompt\": \"held out\", \"truth\": 1}") ==
        "b:1: the prompt \"held out\" is also in task.params.path, expected other prompts");
  CHECK(files.refusal("{\"prompt\": \"\xff\", \"truth\": 1}").starts_with("a:1:13: not valid JSON: "));
  CHECK(files.refusal("{\"prompt\": \"" + std::string(1 << 20, 'x') + "\", \"truth\": 1}") ==
        "a:1: has 1048602 bytes, expected at most 1048576");
  CHECK(files.refusal("{\"prompt\": \"p\", \"truth\": 1, \"truth\": 2}").starts_with("a:1: truth: "));
  CHECK(files.refusal("{\"prompt\": \"p\", \"truth\": \"t\", \"demonstration\": \"u\"}") ==
        "a:1: the demonstration \"u\" is not right for the truth \"t\"");
  CHECK(files.refusal(kGood, R"(, "match": "number")") ==
        "a:1: the truth \"t\" is no number, which task.params.match \"number\" needs; use \"exact\"");
}

TEST_CASE("dataset: a file that is missing or empty, and a split without prompts, are refused") {
  Files files;
  CHECK(files.refusal("") == "task.params.path: a has no prompts");
  CHECK(files.refusal(" \n\n") == "task.params.path: a has no prompts");
  CHECK_THROWS_WITH_AS(task_of("dataset"), "task.params.path: \"\" is empty, expected the path of a JSON Lines file",
                       ConfigError);
  CHECK_THROWS_AS(task_of("dataset", R"({"path": "/nonexistent"})"), ConfigError);
  CHECK_THROWS_AS(task_of("dataset", R"({"path": "/"})"), ConfigError);
  files.write("a", kGood);
  REQUIRE(split_of("p") == Split::train);
  CHECK_THROWS_WITH_AS(task_of("dataset", R"({"path": ")" + files.path("a") + "\"}"),
                       ("task.params.path: " + files.path("a") +
                        " gives 1 prompts for training and 0 held-out ones, expected at least 1 of each; add prompts "
                        "or set task.params.held_out_path")
                           .c_str(),
                       ConfigError);
}

TEST_CASE("answer_match: numbers") {
  CHECK(number_in("-3") == "-3");
  CHECK(number_in("+0.50") == "0.5");
  CHECK(number_in(".5") == "0.5");
  CHECK(number_in("1,234,567.5") == "1234567.5");
  for (const char* zero : {"0", "-0", "+000", "0.00", "-.0"}) CHECK(number_in(zero) == "0");
  for (const char* seven : {"7", "007", "7.0", "+07.00"}) CHECK(number_in(seven) == "7");
  CHECK(number_in("100") == "100");
  CHECK(number_in("0.010") == "0.01");
  for (const char* text : {"", "-", ".", "3.", "1,23", "1234,567", "1e3", "0x1", "nan", "inf", "--3", "- 3", "3 "})
    CHECK_MESSAGE(!number_in(text), text);
  CHECK(number_in(std::string(400, '9')) == std::string(400, '9'));
  CHECK(number_in("9007199254740993") != number_in("9007199254740992"));
  CHECK(number_in("0.1000000000000000055") != number_in("0.1"));
}

TEST_CASE("answer_match: the last number of a text") {
  CHECK(last_number_in("6 * 7 = 42.") == "42");
  CHECK(last_number_in("8-3") == "3");
  CHECK(last_number_in("x = -3, done") == "-3");
  CHECK(last_number_in("$1,234.50!") == "1234.5");
  CHECK(last_number_in("1,2,3") == "3");
  CHECK(last_number_in("7 " + std::string(400, '9')) == std::string(400, '9'));
  CHECK(!last_number_in("no number"));
  CHECK(!last_number_in(""));
}

TEST_CASE("dataset: the source of a prompt is its data_source; what is no text is ignored") {
  const auto source = [](const char* more) {
    return dataset_prompt(std::string(R"({"prompt": "p", "truth": "t")") + more + "}", {"prompt", "truth", "answer"},
                          "f:1")
        .source;
  };
  CHECK(source(R"(, "data_source": "openai/gsm8k")") == "openai/gsm8k");
  CHECK(source("").empty());
  CHECK(source(R"(, "data_source": null)").empty());
  CHECK(source(R"(, "data_source": 3)").empty());
}
