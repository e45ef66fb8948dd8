#pragma once
// How a prompt is written for a chat model. Pure functions; any thread.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace troupe {

enum class ChatTemplate : uint8_t {
  none,    // the prompt itself
  chatml,  // "<|im_start|>user\nPROMPT<|im_end|>\n<|im_start|>assistant\n"
};

// The template of that name. Throws ConfigError "tokenizer.chat_template: ..." for another name.
ChatTemplate chat_template_of(std::string_view name);

// The text after which the model writes its answer. With chatml and a `system` text, a message with that text comes
// first; no other text is added, also where the chat template of a model adds one by itself. Throws ConfigError for a
// system text with `none`.
std::string prompt_text(ChatTemplate chat, std::string_view user, std::string_view system = {});

// The same for a conversation of (role, content), with no other text. Throws ConfigError with `none`.
std::string prompt_text(ChatTemplate chat, std::span<const std::pair<std::string, std::string>> messages);

// The texts before and after a message with this role that follows an answer, of which the end token is written. Throws
// ConfigError with `none` for another role than "user".
std::pair<std::string, std::string> message_frame(ChatTemplate chat, std::string_view role = "user");

// The token that ends the model's answer; empty if that is the tokenizer's eos().
std::string_view end_of_answer(ChatTemplate chat);

}  // namespace troupe
