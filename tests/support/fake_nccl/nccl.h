#pragma once
// The part of NCCL that the "nccl" backend uses, for tests without a GPU. All ranks of a communicator are threads of
// one process. Names, values and meanings are those of the public documentation of NCCL. See fake_gpu.h for faults.

#include <cstddef>

#include "tests/support/fake_nccl/cuda_runtime.h"

struct ncclComm;
using ncclComm_t = ncclComm*;

struct ncclUniqueId {
  char internal[128];
};

struct ncclConfig_t {
  int blocking;
};
#define NCCL_CONFIG_INITIALIZER {1}

enum ncclResult_t {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};
enum ncclDataType_t { ncclUint8 = 1 };

namespace fake_gpu {

const char* ncclGetErrorString(ncclResult_t result);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state);
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream);
// Between these two, calls of this thread only note sends and receives. The end launches them as one kernel, which ends
// when all of them have.
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
// A send ends when its peer has received it. The next send to a rank belongs to its next receive from this one.
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream);
// In progress until all ranks have called it, as on one machine.
ncclResult_t ncclCommFinalize(ncclComm_t comm);
// Refused before the finalize has ended.
ncclResult_t ncclCommDestroy(ncclComm_t comm);
// Ends the kernels of this rank. The other ranks do not notice.
ncclResult_t ncclCommAbort(ncclComm_t comm);

}  // namespace fake_gpu
