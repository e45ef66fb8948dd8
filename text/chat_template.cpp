#include "text/chat_template.h"

#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

std::string message(std::string_view role, std::string_view content) {
  return "<|im_start|>" + std::string(role) + '\n' + std::string(content) + "<|im_end|>\n";
}

}  // namespace

ChatTemplate chat_template_of(std::string_view name) {
  if (name == "none") return ChatTemplate::none;
  if (name == "chatml") return ChatTemplate::chatml;
  throw ConfigError("tokenizer.chat_template: \"" + printable(name) + "\" is unknown, expected one of: none, chatml");
}

std::string prompt_text(ChatTemplate chat, std::string_view user, std::string_view system) {
  if (chat == ChatTemplate::none) {
    if (!system.empty())
      throw ConfigError("tokenizer.chat_template: none has no place for the system text \"" + printable(system) +
                        "\", expected chatml");
    return std::string(user);
  }
  const std::string first = system.empty() ? "" : message("system", system);
  return first + message("user", user) + "<|im_start|>assistant\n";
}

std::string prompt_text(ChatTemplate chat, std::span<const std::pair<std::string, std::string>> messages) {
  if (chat == ChatTemplate::none)
    throw ConfigError("tokenizer.chat_template: none has no place for a conversation of " +
                      std::to_string(messages.size()) + " messages, expected chatml");
  std::string text;
  for (const auto& [role, content] : messages) text += message(role, content);
  return text + "<|im_start|>assistant\n";
}

std::pair<std::string, std::string> message_frame(ChatTemplate chat, std::string_view role) {
  if (chat == ChatTemplate::none) {
    if (role != "user")
      throw ConfigError("tokenizer.chat_template: none has no place for a message with the role \"" + printable(role) +
                        "\", expected chatml");
    return {};
  }
  return {"\n<|im_start|>" + std::string(role) + '\n', "<|im_end|>\n<|im_start|>assistant\n"};
}

std::string_view end_of_answer(ChatTemplate chat) { return chat == ChatTemplate::chatml ? "<|im_end|>" : ""; }

}  // namespace troupe
