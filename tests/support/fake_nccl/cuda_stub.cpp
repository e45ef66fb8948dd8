#include "tests/support/fake_nccl/cuda_runtime.h"

#include <array>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "tests/support/fake_nccl/fake_gpu.h"

// How far an event has come. Tasks share it, so that the event may be destroyed before they end.
struct EventState {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t recorded = 0, passed = 0;
};

struct CUevent_st {
  std::shared_ptr<EventState> state = std::make_shared<EventState>();
};

struct CUstream_st {
  CUstream_st() : worker([this] { work(); }) {}
  ~CUstream_st() {
    {
      const std::lock_guard lock(mutex);
      closing = true;
    }
    changed.notify_all();
    worker.join();  // after all tasks
  }
  void add(std::function<void()> task) {
    const std::lock_guard lock(mutex);
    tasks.push_back(std::move(task));
    changed.notify_all();
  }
  void synchronize() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return tasks.empty(); });
  }
  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return closing || !tasks.empty(); });
      if (tasks.empty()) return;
      const std::function<void()> task = tasks.front();
      lock.unlock();
      task();
      lock.lock();
      tasks.pop_front();
      changed.notify_all();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;  // the first is at work
  bool closing = false;
  std::thread worker;  // last: uses the members above
};

namespace fake_gpu {

namespace {

struct Machine {
  std::mutex mutex;
  int devices = 1;
  Existing existing;
  uint64_t allocations = 0;
  std::map<int, uint64_t> by_device;
  std::map<std::byte*, size_t> pinned;
};

Machine& machine() {
  static Machine it;
  return it;
}

thread_local int device_of_thread = 0;

bool is_pinned(const void* memory) {
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  const auto* address = static_cast<const std::byte*>(memory);
  for (const auto& [begin, bytes] : all.pinned)
    if (address >= begin && address < begin + bytes) return true;
  return false;
}

template <class Object>
cudaError_t make(Object** object, int Existing::* counter) {
  *object = new Object;
  count(counter, 1);
  return cudaSuccess;
}

template <class Object>
cudaError_t destroy(Object* object, int Existing::* counter) {
  delete object;
  count(counter, -1);
  return cudaSuccess;
}

template <class Value>
Value read(Value Machine::* value) {
  const std::lock_guard lock(machine().mutex);
  return machine().*value;
}

cudaError_t allocate(void** memory, size_t bytes, bool pinned) {
  *memory = std::malloc(bytes);
  if (!*memory) return cudaErrorMemoryAllocation;
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  ++all.allocations;
  if (pinned) {
    ++all.existing.pinned_blocks;
    all.pinned[static_cast<std::byte*>(*memory)] = bytes;
  } else {
    ++all.existing.device_blocks;
    ++all.by_device[device_of_thread];
  }
  return cudaSuccess;
}

cudaError_t free_block(void* memory, bool pinned) {
  {
    Machine& all = machine();
    const std::lock_guard lock(all.mutex);
    --(pinned ? all.existing.pinned_blocks : all.existing.device_blocks);
    if (pinned) all.pinned.erase(static_cast<std::byte*>(memory));
  }
  std::free(memory);
  return cudaSuccess;
}

}  // namespace

void set_devices(int count) {
  const std::lock_guard lock(machine().mutex);
  machine().devices = count;
}

Existing existing() { return read(&Machine::existing); }
uint64_t allocations() { return read(&Machine::allocations); }
uint64_t allocations_on(int device) { return read(&Machine::by_device)[device]; }

void count(int Existing::* what, int by) {
  const std::lock_guard lock(machine().mutex);
  machine().existing.*what += by;
}

void enqueue(cudaStream_t stream, std::function<void()> task) { stream->add(std::move(task)); }

int current_device() { return device_of_thread; }

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorNotReady: return "device not ready";
  }
  return "unrecognized error code";
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = read(&Machine::devices);
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= read(&Machine::devices)) return cudaErrorInvalidDevice;
  device_of_thread = device;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) { return allocate(memory, bytes, false); }
cudaError_t cudaFree(void* memory) { return free_block(memory, false); }
cudaError_t cudaMallocHost(void** memory, size_t bytes) { return allocate(memory, bytes, true); }
cudaError_t cudaFreeHost(void* memory) { return free_block(memory, true); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return make(stream, &Existing::streams); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return destroy(stream, &Existing::streams); }

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  stream->synchronize();
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const auto state = event->state;
  uint64_t wanted;
  {
    const std::lock_guard lock(state->mutex);
    wanted = state->recorded;
  }
  stream->add([state, wanted] {
    std::unique_lock lock(state->mutex);
    state->changed.wait(lock, [&] { return state->passed >= wanted; });
  });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return make(event, &Existing::events); }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return destroy(event, &Existing::events); }

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const auto state = event->state;
  uint64_t number;
  {
    const std::lock_guard lock(state->mutex);
    number = ++state->recorded;
  }
  stream->add([state, number] {
    const std::lock_guard lock(state->mutex);
    state->passed = number;
    state->changed.notify_all();
  });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(event->state->mutex);
  return event->state->passed >= event->state->recorded ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  stream->add([to, from, bytes] { std::memcpy(to, from, bytes); });
  if ((kind == cudaMemcpyHostToDevice && !is_pinned(from)) || (kind == cudaMemcpyDeviceToHost && !is_pinned(to)))
    stream->synchronize();
  return cudaSuccess;
}

}  // namespace fake_gpu
