#include "text/tokenizer.h"

namespace troupe {

std::vector<int32_t> Tokenizer::encode_prompt(std::string_view text) const {
  std::vector<int32_t> ids = encode(text);
  if (prompts_begin_with_bos()) ids.insert(ids.begin(), bos().value());
  return ids;
}

}  // namespace troupe
