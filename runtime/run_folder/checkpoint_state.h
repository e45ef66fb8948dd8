#pragma once
// state.json of a checkpoint: what the run was at that moment, and the size and CRC of every other file. Used by
// CheckpointStore; any thread.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "runtime/base/file.h"

namespace troupe {

struct Checkpoint;

// The CRC of a document without its entry "crc32c": 8 hexadecimal digits.
std::string document_crc(const nlohmann::json& document);

// The document without "files" and "settings", and without its CRC.
nlohmann::json new_state_document(const Checkpoint& checkpoint);
// Adds the CRC, which covers the meaning of the document, not its white space. The text of the file.
std::string state_text(nlohmann::json document);

// The document in a file. Throws IoError naming the file: its CRC is wrong, or another program wrote it.
nlohmann::json read_state_document(const Disk& disk, const std::string& path);
// Fills version, counts, seed and scalars. Throws IoError that names the file and the entry which cannot be right.
void read_state(const nlohmann::json& document, const std::string& path, Checkpoint& checkpoint);

}  // namespace troupe
