#include "extension/kernel_util/registration.h"

#include <atomic>

namespace et::extension {
namespace {

std::atomic<const KernelRegistration*> g_first{nullptr};  // initialised before any static object is made
thread_local runtime::KernelContext* t_context = nullptr;

}  // namespace

KernelRegistration::KernelRegistration(const runtime::Kernel& kernel, const char* library)
    : kernel_(kernel), library_(library), next_(g_first.load(std::memory_order_relaxed)) {
  while (!g_first.compare_exchange_weak(next_, this, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

bool KernelRegistration::any_left() { return g_first.load(std::memory_order_acquire) != nullptr; }

const KernelRegistration* KernelRegistration::take_all() {
  return g_first.exchange(nullptr, std::memory_order_acquire);
}

void KernelRegistration::give_back(const KernelRegistration* first) {
  for (const KernelRegistration *next = nullptr, *one = first; one != nullptr; one = next) {
    next = one->next_;
    one->next_ = g_first.load(std::memory_order_relaxed);
    while (!g_first.compare_exchange_weak(one->next_, one, std::memory_order_release, std::memory_order_relaxed)) {
    }
  }
}

KernelRuntimeContext::KernelRuntimeContext(runtime::KernelContext& context) : context_(context), outer_(t_context) {
  t_context = &context;
}

KernelRuntimeContext::~KernelRuntimeContext() { t_context = outer_; }

Error resize_tensor(const runtime::Tensor& out, runtime::IntArrayRef sizes) {
  if (t_context != nullptr) {
    return runtime::resize_tensor(*t_context, out, sizes);
  }
  ET_CHECK_OR_RETURN(out.defined(), InvalidArgument, "an undefined tensor has no sizes to change");
  return out.unsafe_impl()->resize(sizes);
}

}  // namespace et::extension
