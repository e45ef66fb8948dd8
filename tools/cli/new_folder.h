#pragma once
// A folder that a command writes as a whole. Blocks on the disk; main thread.

#include <functional>
#include <string>

namespace troupe {

// Throws ConfigError that begins with the flag unless the folder is absent or empty.
void require_new_folder(const std::string& flag, const std::string& folder);

// Calls `write` with a folder beside that one, which takes its place afterwards, so that a folder of that name is
// complete. What is thrown leaves nothing behind, and removes nothing else. Throws IoError and what `write` throws.
void write_new_folder(const std::string& folder, const std::function<void(const std::string& parts)>& write);

}  // namespace troupe
