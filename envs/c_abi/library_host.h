#pragma once
// The process in which a HostedEnv runs a library: `troupe library-host`, which HostedEnv starts.

namespace troupe {

// Serves requests until the other end of the socket is closed, and ends the process. Uses the descriptors kHostSocket
// and kHostMemory.
[[noreturn]] void run_library_host();

}  // namespace troupe
