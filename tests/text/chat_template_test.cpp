#include "text/chat_template.h"

#include <utility>
#include <vector>

#include "runtime/base/errors.h"
#include "tests/support/test.h"

using namespace troupe;

TEST_CASE("chat_template: none is the text itself, chatml the messages before the answer") {
  CHECK(prompt_text(ChatTemplate::none, "1+1=") == "1+1=");
  CHECK(prompt_text(ChatTemplate::chatml, "Hi") == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  CHECK(prompt_text(ChatTemplate::chatml, "Hi", "Be brief.") ==
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  CHECK(end_of_answer(ChatTemplate::none).empty());
  CHECK(end_of_answer(ChatTemplate::chatml) == "<|im_end|>");
}

TEST_CASE("chat_template: a conversation is one message after the other") {
  using Messages = std::vector<std::pair<std::string, std::string>>;
  const Messages two = {{"system", "Be brief."}, {"user", "Hi"}};
  CHECK(prompt_text(ChatTemplate::chatml, two) == prompt_text(ChatTemplate::chatml, "Hi", "Be brief."));
  CHECK(prompt_text(ChatTemplate::chatml, Messages{{"user", "Hi"}, {"assistant", "Hello"}, {"user", "1+1?"}}) ==
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\n1+1?<|im_end|>\n"
        "<|im_start|>assistant\n");
  CHECK_THROWS_WITH_AS(prompt_text(ChatTemplate::none, two),
                       "tokenizer.chat_template: none has no place for a conversation of 2 messages, expected chatml",
                       ConfigError);
}

TEST_CASE("chat_template: other names, and a system text without a place for it, are refused") {
  CHECK(chat_template_of("none") == ChatTemplate::none);
  CHECK(chat_template_of("chatml") == ChatTemplate::chatml);
  CHECK_THROWS_WITH_AS(chat_template_of("llama"),
                       "tokenizer.chat_template: \"llama\" is unknown, expected one of: none, chatml", ConfigError);
  CHECK_THROWS_WITH_AS(prompt_text(ChatTemplate::none, "Hi", "Be brief."),
                       "tokenizer.chat_template: none has no place for the system text \"Be brief.\", expected chatml",
                       ConfigError);
}
