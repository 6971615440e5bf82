// As the published page "Runtime integration" sends messages and time through functions of the application.
#include <executorch_py/extension/module/module.h>
#include <executorch_py/runtime/platform.h>
#include <executorch_py/runtime/platform/log.h>
#include <executorch_py/runtime/platform/platform.h>
#include <executorch_py/runtime/platform/runtime.h>

#undef NDEBUG
#include <cassert>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

std::vector<std::string> messages;
int inits = 0, asked = 0;

void emit_log_message(et_timestamp_t, et_pal_log_level_t level, const char* filename, const char*, size_t line,
                      const char* message, size_t length) {
  assert(line > 0 && filename != nullptr && std::string(message).size() == length);
  messages.push_back(static_cast<char>(level) + std::string(" ") + message);
}

et_timestamp_t ticks() { return static_cast<et_timestamp_t>(++asked); }
et_tick_ratio_t ratio() { return {2000, 1}; }

executorch::runtime::PalImpl build_pal() { return executorch::runtime::PalImpl::create(emit_log_message, __FILE__); }
[[maybe_unused]] const bool registration_result = executorch::runtime::register_pal(build_pal());

void leave() { std::_Exit(messages.empty() ? 1 : 0); }

}  // namespace

int main() {
  using namespace executorch::runtime;
  assert(registration_result && get_pal_impl()->emit_log_message == &emit_log_message);
  executorch::extension::Module missing("no_such_file.pte");
  assert(missing.load() != Error::Ok);
  assert(!messages.empty() && messages.back()[0] == 'E');
  ET_LOG(Info, "%d outputs", 3);
  assert(messages.back() == "I 3 outputs");

  PalImpl time = PalImpl::create([] { ++inits; }, nullptr, ticks, ratio, nullptr, nullptr, nullptr, __FILE__);
  assert(register_pal(time));
  runtime_init();
  assert(inits == 1);
  assert(pal_ticks_to_ns_multiplier().numerator == 2000 && pal_current_ticks() == 1);
  assert(et::runtime::platform_now_ns() == 4000);  // tracers take their times from it

  void* const block = pal_allocate(16);
  assert(block != nullptr);
  pal_free(block);
  PalImpl half = {};
  half.allocate = [](size_t) -> void* { return nullptr; };
  assert(!register_pal(half) && messages.back()[0] == 'E');

  PalImpl end = {};
  end.abort = leave;
  assert(register_pal(end));
  ET_CHECK_MSG(1 + 1 == 3, "%s", "sums");
  return 1;
}
